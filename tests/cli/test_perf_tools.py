"""Kafka's performance tests of producers, consumers and share consumers: the lines are Kafka's."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.consumer_perf_test import main as consumer_main
from ottla.cli.kafka.perf import PerfStats
from ottla.cli.kafka.producer_perf_test import main as producer_main
from ottla.cli.kafka.share_consumer_perf_test import main as share_main
from ottla.client import Admin, Consumer
from ottla.client.configs import ResourceType
from ottla.testing import LocalCluster

Tool = Callable[..., Any]

TOTAL = (
    r"{count} {what} sent, \d+\.\d{{6}} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg"
    r" latency, \d+\.\d\d ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
COLUMNS = (
    "data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms,"
    " fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)
STAMP = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"
NUMBERS = r"\d+\.\d{4}, \d+\.\d{4}, (\d+), \d+\.\d{4}, \d+, \d+, \d+\.\d{4}, \d+\.\d{4}"


@pytest.fixture
def produce(run: Tool, bootstrap: str, admin: Admin, topic: str) -> Tool:
    admin.topics.create(topic, 1)
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "-1")
    return lambda *more: run(producer_main, *words, *more)


@pytest.fixture
def consume(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(consumer_main, "--bootstrap-server", bootstrap, *words)


def test_produce_and_consume(produce: Tool, consume: Tool, topic: str) -> None:
    produced = produce("--num-records", "500", "--record-size", "50")
    assert re.fullmatch(TOTAL.format(count=500, what="records"), produced.out.rstrip("\n"))
    assert produced.code == 0
    consumed = consume("--topic", topic, "--num-records", "500")
    assert consumed.lines[0] == f"start.time, end.time, {COLUMNS}"
    line = re.fullmatch(rf"{STAMP}, {STAMP}, {NUMBERS}", consumed.lines[1])
    assert line is not None
    assert line[1] == "500"


def test_warm_up_has_its_own_summary(produce: Tool) -> None:
    ran = produce("--num-records", "300", "--record-size", "10", "--warmup-records", "100")
    assert ran.lines[0].startswith("Warmup first 100 records. Steady state results will print")
    assert ran.lines[1] == "In steady state."
    assert re.fullmatch(TOTAL.format(count=300, what="records"), ran.lines[-2])
    assert re.fullmatch(TOTAL.format(count=200, what="steady state records"), ran.lines[-1])


def test_payloads_that_count_up(produce: Tool, bootstrap: str, topic: str) -> None:
    produce("--num-records", "3", "--payload-monotonic", "--command-property", "acks=1")
    with Consumer(bootstrap, topic, auto_offset_reset="earliest", value=str) as consumer:
        assert [record.value for record in consumer.take(3)] == ["0", "1", "2"]


def test_payloads_of_a_file(produce: Tool, bootstrap: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("aaa\nbbb\n")
    ran = produce("--num-records", "20", "--payload-file", str(file))
    assert ran.lines[:2] == [f"Reading payloads from: {file}", "Number of records read: 2"]
    with Consumer(bootstrap, topic, auto_offset_reset="earliest", value=str) as consumer:
        assert {record.value for record in consumer.take(20)} == {"aaa", "bbb"}


def test_a_rate_is_kept(run: Tool, bootstrap: str, topic: str) -> None:
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--throughput", "200")
    ran = run(producer_main, *words, "--num-records", "100", "--record-size", "10")
    found = re.search(r"sent, ([\d.]+) records/sec", ran.out)
    assert found is not None
    assert float(found[1]) < 220


def test_metrics(produce: Tool) -> None:
    ran = produce("--num-records", "10", "--record-size", "10", "--print-metrics")
    assert "Metric Name" in ran.out
    assert re.search(r"producer-metrics:txmsgs:\{client-id=perf-producer-client\}\s+: \d", ran.out)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--num-records", "10"], "one of the arguments --record-size --payload-file"),
        (["--record-size", "10"], "--num-records"),
        (
            ["--num-records", "10", "--record-size", "0"],
            "--record-size should be greater than zero.",
        ),
        (
            ["--num-records", "0", "--record-size", "1"],
            "--num-records should be greater than zero.",
        ),
        (
            ["--num-records", "5", "--record-size", "1", "--warmup-records", "5"],
            "must be strictly fewer than the number of records in the test",
        ),
        (["--num-records", "5", "--payload-file", "/no/file"], "File does not exist or empty file"),
    ],
)
def test_the_producer_test_refuses_invalid_options(
    run: Tool, words: list[str], sentence: str
) -> None:
    common = ("--bootstrap-server", "localhost:1", "--topic", "t", "--throughput", "-1")
    ran = run(producer_main, *common, *words)
    assert sentence in ran.err
    assert ran.code == 1


def test_detailed_statistics(produce: Tool, consume: Tool, topic: str) -> None:
    produce("--num-records", "2000", "--record-size", "50")
    words = ("--show-detailed-stats", "--reporting-interval", "1", "--hide-header")
    ran = consume("--topic", topic, "--num-records", "2000", *words)
    assert ran.lines
    assert all(re.fullmatch(rf"{STAMP}, 0, {NUMBERS}", line) for line in ran.lines)


def test_too_few_records_cause_a_warning(consume: Tool, five: str) -> None:
    ran = consume("--include", f"{five}.*", "--messages", "9", "--timeout", "500", "--hide-header")
    assert ran.lines[0] == "Warning: --messages is deprecated. Use --num-records instead."
    assert ran.lines[1].startswith(
        "WARNING: Exiting before consuming the expected number of records: timeout (500 ms)"
    )
    assert ran.lines[2].split(", ")[4] == "5"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--topic", "t"], "Exactly one of the following arguments is required: [messages], [num"),
        (["--num-records", "1"], "Exactly one of the following arguments is required: [topic], ["),
    ],
)
def test_the_consumer_test_refuses_invalid_options(
    consume: Tool, words: list[str], sentence: str
) -> None:
    assert consume(*words).err.startswith(sentence)


def test_percentiles_come_from_the_recorded_values() -> None:
    stats = PerfStats(1000, 60_000)
    for number in range(1000):
        stats.add(float(number), 10)
    assert [stats.percentile(entry) for entry in (0.5, 0.95, 0.99, 0.999)] == [500, 950, 990, 999]
    assert "499.50 ms avg latency, 999.00 ms max latency" in stats.total()


@pytest.mark.parametrize("mode", [(), ("--transactional-id", "gone")])
def test_the_tool_ends_when_the_brokers_are_gone(
    run: Tool, topic: str, mode: tuple[str, ...]
) -> None:
    """Failed records must not keep it running, because more would follow forever."""
    with LocalCluster() as cluster:
        with Admin(cluster.bootstrap_servers) as admin:
            admin.topics.create(topic, 1)

        def kill_later() -> None:
            with Consumer(
                cluster.bootstrap_servers, topic, auto_offset_reset="earliest"
            ) as consumer:
                assert consumer.take(10), "the test has begun"
            cluster.kill()

        killer = threading.Thread(target=kill_later)
        killer.start()
        ran = run(
            producer_main,
            *("--bootstrap-server", cluster.bootstrap_servers, "--topic", topic),
            *("--num-records", "1000000000", "--record-size", "10", "--throughput", "2000"),
            *("--command-property", "delivery.timeout.ms=2000", "request.timeout.ms=1000"),
            *mode,
        )
        killer.join()
    assert ran.code == 1
    assert "records sent," in ran.out
    assert re.search(r"records were not delivered: no record was delivered for \d+ s", ran.err)
    assert "cannot reach" in ran.err


SHARE_NUMBERS = r"\d+\.\d{4}, \d+\.\d{4}, \d+\.\d{4}, (\d+), \d+"


@pytest.fixture
def share(run: Tool, bootstrap: str, admin: Admin, topic: str, group: str) -> Tool:
    start = {"share.auto.offset.reset": "earliest"}
    admin.configs.alter(ResourceType.GROUP, group, set=start)
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--group", group)
    return lambda *more: run(share_main, *words, *more)


def test_share_consumers_share_the_records(produce: Tool, share: Tool) -> None:
    produce("--num-records", "500", "--record-size", "50")
    ran = share("--num-records", "500", "--threads", "2", "--show-consumer-stats")
    header, first, second, total = ran.lines
    assert header == (
        "start.time, end.time, data.consumed.in.MB, MB.sec, nMsg.sec, data.consumed.in.nMsg,"
        " fetch.time.ms"
    )
    counts = []
    for number, line in enumerate((first, second), 1):
        of_one = rf"Share consumer {number} consumption metrics- {STAMP}, {STAMP}, {SHARE_NUMBERS}"
        found = re.fullmatch(of_one, line)
        assert found is not None
        counts.append(int(found[1]))
    assert sum(counts) == 500
    of_all = re.fullmatch(rf"{STAMP}, {STAMP}, {SHARE_NUMBERS}", total)
    assert of_all is not None
    assert of_all[1] == "500"
    assert ran.code == 0


def test_share_consumers_show_progress_and_stop_without_records(produce: Tool, share: Tool) -> None:
    produce("--num-records", "10", "--record-size", "50")
    details = ("--show-detailed-stats", "--reporting-interval", "1", "--hide-header")
    ran = share("--messages", "20", "--timeout", "1500", *details)
    assert ran.lines[0] == "Warning: --messages is deprecated. Use --num-records instead."
    assert re.fullmatch(rf"{STAMP}, {STAMP}, {SHARE_NUMBERS} for share consumer 1", ran.lines[1])
    assert ran.lines[-2] == (
        "WARNING: Exiting before consuming the expected number of records: timeout (1500 ms)"
        " exceeded. You can use the --timeout option to increase the timeout."
    )
    # What was read is accepted: another run finds nothing.
    again = share("--num-records", "1", "--timeout", "1500", "--hide-header")
    found = re.fullmatch(rf"{STAMP}, {STAMP}, {SHARE_NUMBERS}", again.lines[-1])
    assert found is not None
    assert found[1] == "0"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((), "Exactly one of the following arguments is required: [messages], [num-records]"),
        (("--num-records", "1", "--threads", "0"), "The number of threads must be greater than 0."),
        (
            ("--num-records", "1", "--reporting-interval", "0"),
            "Reporting interval must be greater than 0.",
        ),
    ],
)
def test_wrong_lines_of_share_consumers(share: Tool, words: tuple[str, ...], sentence: str) -> None:
    ran = share(*words)
    assert ran.err.startswith(sentence)
    assert ran.code == 1
