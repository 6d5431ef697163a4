"""kafka-get-offsets, kafka-delete-records and kafka-broker-api-versions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.broker_api_versions import main as versions_main
from ottla.cli.kafka.delete_records import main as delete_main
from ottla.cli.kafka.get_offsets import main as offsets_main
from ottla.client import Admin

Tool = Callable[..., Any]


@pytest.fixture
def offsets(run: Tool, bootstrap: str) -> Tool:
    return lambda *words: run(offsets_main, "--bootstrap-server", bootstrap, *words)


@pytest.fixture
def delete(run: Tool, bootstrap: str, tmp_path: Path) -> Tool:
    def delete(content: object) -> Any:
        file = tmp_path / "offsets.json"
        file.write_text(content if isinstance(content, str) else json.dumps(content))
        words = ("--bootstrap-server", bootstrap, "--offset-json-file", str(file))
        return run(delete_main, *words)

    return delete


@pytest.mark.parametrize(
    ("time", "offset"),
    [
        ("latest", 5),
        ("-1", 5),
        ("earliest", 0),
        ("max-timestamp", 4),
        ("0", 0),
        ("1003", 3),
        ("earliest-local", 0),
    ],
)
def test_offsets_by_time(offsets: Tool, five: str, time: str, offset: int) -> None:
    assert offsets("--topic", five, "--time", time).out == f"{five}:0:{offset}\n"


def test_a_time_without_records_prints_nothing(offsets: Tool, five: str) -> None:
    ran = offsets("--topic", five, "--time", "99999999999999")
    assert (ran.out, ran.code) == ("", 0)


def test_partitions_by_rules(offsets: Tool, admin: Admin, topic: str) -> None:
    admin.topics.create(topic, 4)

    def found(*words: str) -> list[int]:
        return [int(line.split(":")[1]) for line in offsets(*words).lines]

    assert found("--topic", topic) == [0, 1, 2, 3]
    assert found("--topic", topic, "--partitions", "0,2") == [0, 2]
    assert found("--topic-partitions", f"{topic}:1-3") == [1, 2]
    assert found("--topic-partitions", f"{topic}:2-") == [2, 3]
    assert found("--topic-partitions", f"{topic}:-1") == [0]
    assert found("--topic-partitions", f"{topic}:3,no-such") == [3]
    assert found("--topic", f"{topic[:-1]}.") == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--topic", "no-such"], "Could not match any topic-partitions with the specified filters"),
        (["--time", "nonsense"], "Malformed time argument nonsense. Please use -1 or latest / -2"),
        (["--partitions", "x"], "--partitions expects a comma separated list of numeric partition"),
        (["--topic-partitions", "t:a"], "Invalid rule specification: t:a"),
        (
            ["--topic-partitions", "t", "--topic", "t"],
            "--topic-partitions cannot be used with --topic or --partitions",
        ),
    ],
)
def test_get_offsets_refuses_invalid_options(
    offsets: Tool, words: list[str], sentence: str
) -> None:
    ran = offsets(*words)
    assert ran.err.startswith(f"Error occurred: {sentence}")
    assert ran.code == 1


def test_delete_records(delete: Tool, offsets: Tool, five: str) -> None:
    part = {"topic": five, "partition": 0}
    ran = delete({"partitions": [{**part, "offset": 2}], "version": 1})
    assert ran.lines == [
        "Executing records delete operation",
        "Records delete operation completed:",
        f"partition: {five}-0\tlow_watermark: 2",
    ]
    assert offsets("--topic", five, "--time", "earliest").out == f"{five}:0:2\n"
    far = delete({"partitions": [{**part, "offset": 1000}]})
    assert f"partition: {five}-0\terror: org.apache.kafka.common.errors.OffsetOutOf" in far.out
    assert delete({"partitions": [{**part, "offset": -1}]}).lines[-1].endswith("low_watermark: 5")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "The input string is not a valid JSON"),
        ("", "Expected JSON object, received "),
        ({"version": 2, "partitions": []}, "Not supported version field value 2"),
        ({"version": 1}, "Missing partitions field"),
        ({"partitions": [{"topic": "t", "offset": 1}]}, "No such field exists: `partition`"),
        (
            {"partitions": [{"topic": "t", "partition": 0, "offset": 1}] * 2},
            "Offset json file contains duplicate topic partitions: t-0",
        ),
    ],
)
def test_delete_records_refuses_invalid_files(delete: Tool, content: object, sentence: str) -> None:
    ran = delete(content)
    assert ran.err.startswith(sentence)
    assert ran.code == 1


def test_api_versions(run: Tool, bootstrap: str) -> None:
    ran = run(versions_main, "--bootstrap-server", bootstrap)
    assert re.fullmatch(
        rf"(localhost|127\.0\.0\.1):{bootstrap.rpartition(':')[2]}"
        r" \(id: \d+ rack: null isFenced: false\) -> \(",
        ran.lines[0],
    )
    assert ran.lines[1] == "\tProduce(0): 0 to 13 [usable: 13],"
    assert "\tDescribeTopicPartitions(75): 0 [usable: 0]," in ran.lines
    assert ran.lines[-1] == ")"
    assert ran.code == 0


def test_api_versions_reports_an_unreachable_broker(run: Tool) -> None:
    ran = run(versions_main, "--bootstrap-server", "localhost:1")
    assert ran.err.startswith("cannot reach localhost:1: Connection refused\nIs the broker running")
    assert ran.code == 1
