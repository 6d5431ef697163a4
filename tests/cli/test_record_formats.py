"""Records of coordinators' topics, as Apache Kafka 4.3.1 wrote them and as its tools show them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka import record_formats
from ottla.cli.kafka.dump_log import main
from ottla.cli.kafka.formatters import formatter
from ottla.client.record import ConsumerRecord
from ottla.records.batch import build_batch
from ottla.records.record import Record as Stored

Tool = Callable[..., Any]

LINES = [
    line.split(" ", 3)
    for line in (Path(__file__).parent / "coordinator_records.txt").read_text().splitlines()
    if not line.startswith("#")
]
DECODERS = {
    "GROUPS": "--offsets-decoder",
    "TRANSACTIONS": "--transaction-log-decoder",
    "SHARE_STATES": "--share-group-state-decoder",
}


@pytest.mark.parametrize(("name", "key", "value", "shown"), LINES)
def test_records_written_by_kafka_are_formatted(
    name: str, key: str, value: str, shown: str
) -> None:
    formats = getattr(record_formats, name)
    found = record_formats.record_json(formats, bytes.fromhex(key), bytes.fromhex(value))
    assert json.dumps(found, separators=(",", ":")) == shown


def test_every_format_but_the_obsolete_one_is_tested() -> None:
    tried = {(name, int(key[:4], 16)) for name, key, _, _ in LINES}
    known = {(name, number) for name in DECODERS for number in getattr(record_formats, name)}
    assert known - tried == {("GROUPS", 4)}  # KIP-1101 put a hash in its place


def test_partition_metadata_of_kafka_4_0() -> None:
    value = b"\0\0\2" + bytes(16) + b"\3t1\0\0\0\2" + b"\2\0\0\0\1\2\2r\0" + b"\0" + b"\0"
    found = record_formats.record_json(record_formats.GROUPS, b"\0\4\0\1g", value)
    (topic,) = found["value"]["data"]["topics"]
    assert topic["topicName"] == "t1"
    assert topic["partitionMetadata"] == [{"partition": 1, "racks": ["r"]}]


@pytest.mark.parametrize("cut", range(1, 8))
def test_truncated_records_are_not_shown(cut: int) -> None:
    name, key, value, _ = LINES[0]
    formats = getattr(record_formats, name)
    assert record_formats.record_json(formats, bytes.fromhex(key)[:-cut], None) is None
    assert record_formats.record_json(formats, bytes.fromhex(key), bytes.fromhex(value)[:-cut]) is (
        None
    )


@pytest.mark.parametrize("name", DECODERS)
def test_dump_log(run: Tool, tmp_path: Path, name: str) -> None:
    _, key, value, shown = next(line for line in LINES if line[0] == name)
    values = (bytes.fromhex(value), None)
    stored = [Stored(at, 0, bytes.fromhex(key), data, []) for at, data in enumerate(values)]
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(build_batch(stored))
    *_, first, second = run(main, DECODERS[name], "--files", str(path)).lines
    found = json.loads(shown)
    key_type = found["key"]["type"]
    assert f'key: {{"type":"{key_type}","data":{{' in first
    assert first.endswith(json.dumps(found["value"]["data"], separators=(",", ":")) + "}")
    assert second.endswith("payload: <DELETE>")


@pytest.mark.parametrize(
    ("name", "formats"),
    [
        ("ShareGroupMessageFormatter", "GROUPS"),
        ("TransactionLogMessageFormatter", "TRANSACTIONS"),
        ("group.share.ShareGroupStateMessageFormatter", "SHARE_STATES"),
    ],
)
def test_formatters(name: str, formats: str) -> None:
    out = io.BytesIO()
    printing = formatter(f"org.apache.kafka.tools.consumer.{name}", {})
    expected = ""
    for found, key, value, shown in LINES:
        if found == formats:
            record = ConsumerRecord("t", 0, 0, 0, bytes.fromhex(key), bytes.fromhex(value))
            printing.write(record, out)
            shares = name != "ShareGroupMessageFormatter" or int(key[:4], 16) in range(10, 16)
            expected += shown if shares else ""
    assert out.getvalue().decode() == expected
