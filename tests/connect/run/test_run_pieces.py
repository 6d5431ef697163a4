"""The pieces of running a connector that need no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.connect.errors import ConfigException, ConnectException
from ottla.connect.run.creation import groups_of
from ottla.connect.run.offsets import BadOffsets, parsed_sink, parsed_source, some
from ottla.connect.run.orders import Failure, Job, Report, query_of
from ottla.connect.run.planner import failure_in, failure_text, shared
from ottla.connect.run.query import retries_tasks, sink_options
from ottla.connect.run.reading import spark_options, topics_pattern
from ottla.connect.run.rows import Packing, cell, packed, report_row, unpacked
from ottla.connect.run.runner import in_records
from ottla.connect.run.source_offsets import FileOffsets, canonical, key_of
from ottla.connect.run.worker import Worker
from ottla.connect.tolerance import ProducedRow


def job(source: bool = True, exactly_once: bool = True, **config: str) -> Job:
    worker = Worker({"bootstrap.servers": "b:1", "group.id": "g"})
    named = {name.replace("_", "."): value for name, value in config.items()}
    return Job("c", "r", source, "m:C", named, worker, [(0, {}), (2, {"a": "b"})], exactly_once, 7)


def test_a_job_and_a_report_come_back_from_their_json() -> None:
    assert Job.from_json(job(topics="a").to_json()) == job(topics="a")
    place = {TopicPartition("t", 1): 5}
    report = Report(3, ("t", "u"), 12, place, {'{"a":1}': '{"b":2}'})
    assert Report.from_json(report.to_json()) == report


def test_partitions_are_shared_among_tasks_also_without_news() -> None:
    parts = [TopicPartition("t", each) for each in range(3)]
    start = {parts[0]: 1, parts[1]: 5}
    end = {parts[0]: 4, parts[1]: 5, parts[2]: 9}
    assert shared(start, end, 2) == [
        [Range("t", 0, 1, 4), Range("t", 2, 9, 9)],
        [Range("t", 1, 5, 5)],
    ]
    assert shared(start, end, 4)[3] == []


def test_a_failure_is_found_in_what_spark_says() -> None:
    failure = Failure(2, 'Traceback\n  File "x"\nConnectException: no "way"')
    text = f"[STREAM_FAILED] Query terminated: {failure_text(failure)}\n\tat java.lang.Thread"
    assert failure_in(text) == failure
    assert failure_in("Py4JNetworkError") is None


def test_rows_travel_with_headers_nulls_and_reports() -> None:
    rows = [
        ProducedRow("t", None, b"k", None, 5, (("h", b"v"), ("h", None))),
        ProducedRow("u", 3, None, b"v", None),
    ]
    batch = unpacked(packed(rows))
    assert batch.column("partition").to_pylist() == [None, 3]
    assert batch.column("headers").to_pylist() == [
        [{"key": "h", "value": b"v"}, {"key": "h", "value": None}],
        None,
    ]
    assert cell(packed(rows)).schema == report_row(Report(1)).schema
    assert report_row(Report(1)).column("rows").to_pylist() == [None]


def test_cells_are_cut_by_rows_and_by_bytes() -> None:
    sent: list[list[bytes]] = []
    packing = Packing(lambda rows: sent.append(unpacked(rows).column("value").to_pylist()))
    small = [ProducedRow("t", None, None, b"%d" % each, None) for each in range(25_000)]
    packing.add(small[:9_999])
    assert sent == []
    packing.add(small[9_999:])
    packing.finish()
    assert list(map(len, sent)) == [10_000, 10_000, 5_000]
    assert [each for cell in sent for each in cell] == [each.value for each in small]
    sent.clear()
    large = ProducedRow("t", None, None, bytes(3 << 20), None)
    packing.add([large, small[0], large, ProducedRow("t", None, b"k", None, None), large])
    packing.finish()
    packing.finish()
    assert list(map(len, sent)) == [3, 2]


def test_progress_is_in_records() -> None:
    reports = [Report(0, records=5), Report(1, records=7), Report(0, records=3)]
    seen = in_records({"rows": 3, "rows_per_second": 1.0, "batch_ms": 200, "lag": 4}, reports)
    assert seen == {"rows": 10, "rows_per_second": 50.0, "batch_ms": 200, "lag": 4}
    assert in_records({}, reports) == {}


def test_topics_are_made_by_the_first_group_that_matches() -> None:
    assert groups_of({}) == []
    groups = groups_of(
        {
            "topic.creation.groups": "small, compacted",
            "topic.creation.default.replication.factor": "3",
            "topic.creation.default.partitions": "5",
            "topic.creation.small.include": "s-.*,x",
            "topic.creation.small.exclude": "s-large",
            "topic.creation.small.partitions": "1",
            "topic.creation.compacted.include": ".*-table",
            "topic.creation.compacted.cleanup.policy": "compact",
        }
    )
    assert [each.name for each in groups] == ["small", "compacted", "default"]

    def made(topic: str) -> tuple[str, int, int]:
        group = next(each for each in groups if each.matches(topic))
        return group.name, group.partitions, group.replicas

    assert made("s-1") == ("small", 1, 3)
    assert made("s-large") == ("default", 5, 3)
    assert made("a-table") == ("compacted", 5, 3)
    assert dict(groups[1].configs) == {"cleanup.policy": "compact"}
    with pytest.raises(ConfigException, match=r"default\.partitions"):
        groups_of({"topic.creation.default.replication.factor": "1"})


def test_offsets_are_kept_by_partition_however_it_is_spelled(tmp_path: Path) -> None:
    assert key_of("c", {"b": 1, "a": "x"}) == b'["c",{"a":"x","b":1}]'
    file = FileOffsets(tmp_path / "offsets")
    file.update("c", {canonical({"b": 1, "a": 2}): {"at": 5}, canonical({"z": 1}): {"at": 1}})
    file.update("d", {canonical({"z": 1}): {"at": 9}})
    file.update("c", {canonical({"z": 1}): None})
    assert file.of("c") == {canonical({"a": 2, "b": 1}): {"at": 5}}
    assert file.of("d") == {canonical({"z": 1}): {"at": 9}}
    (tmp_path / "java").write_bytes(b"\xac\xed\x00\x05 a map of Java's")
    with pytest.raises(ConnectException, match="name another file"):
        FileOffsets(tmp_path / "java").of("c")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "cannot be null or missing"),
        ({"partition": {"kafka_topic": "t"}}, "must contain the keys 'kafka_topic' and"),
        ({"partition": {"kafka_topic": None, "kafka_partition": 1}}, "topic names must be valid"),
        ({"partition": {"kafka_topic": "t", "kafka_partition": None}}, "partitions must be valid"),
        ({"partition": {"kafka_topic": "t", "kafka_partition": "x"}}, "partition value in the"),
        (
            {"partition": {"kafka_topic": "t", "kafka_partition": 1}, "offset": {"at": 1}},
            "should either be null or contain the key 'kafka_offset'",
        ),
        (
            {
                "partition": {"kafka_topic": "t", "kafka_partition": 1},
                "offset": {"kafka_offset": "y"},
            },
            "offset value in the provided offsets: 'y'",
        ),
    ],
)
def test_offsets_of_a_sink_that_make_no_sense(entry: dict[str, object], words: str) -> None:
    with pytest.raises(BadOffsets, match=words):
        parsed_sink(entry)


def test_offsets_that_make_sense() -> None:
    where = {"kafka_topic": "t", "kafka_partition": "1"}
    assert parsed_sink({"partition": where, "offset": {"kafka_offset": "7"}}) == (("t", 1), 7)
    assert parsed_sink({"partition": where, "offset": None}) == (("t", 1), None)
    assert parsed_source({"partition": {"a": 1}, "offset": None}) == ({"a": 1}, None)
    with pytest.raises(BadOffsets, match="source connector offset cannot be null"):
        parsed_source({"offset": {}})
    with pytest.raises(BadOffsets, match="need to be provided"):
        some([])


def test_what_the_query_of_a_connector_is_told() -> None:
    once = sink_options(job(producer_override_compression_type="zstd"))
    assert once["ottla.query.id"] == "connect-g-c"
    assert (once["ottla.run.id"], once["ottla.batch.id"]) == ("r", "7")
    assert once["kafka.compression.type"] == "zstd"
    plainly = sink_options(job(exactly_once=False, offsets_storage_topic="mine"))
    assert plainly["ottla.delivery"] == "at_least_once"
    assert plainly["ottla.topic.last"] == "mine"
    read = spark_options(job(source=False, topics="a.b, c", consumer_override_group_id="x"))
    assert read["subscribePattern"] == r"a\.b|c"
    assert "kafka.group.id" not in read
    assert job(source=False, consumer_override_group_id="x").group == "x"
    assert topics_pattern({"topics.regex": "a.*"}) == "a.*"
    with pytest.raises(ConfigException, match=r"topics or topics\.regex"):
        topics_pattern({})


def test_ids_of_connectors_with_odd_names_differ() -> None:
    worker = Worker({"group.id": "g"})
    names = ["a", "a b", "a/b", "ä", "x" * 80, "x" * 81]
    ids = {query_of(each, worker) for each in names}
    assert len(ids) == len(names)
    assert all(len(each) <= 100 and each.isascii() for each in ids)


def test_only_a_plain_local_master_never_tries_a_task_again() -> None:
    assert not any(map(retries_tasks, ("local", "local[*]", "local[4]")))
    assert all(map(retries_tasks, ("local[2,4]", "local-cluster[1,1,512]", "spark://x:1", "")))
