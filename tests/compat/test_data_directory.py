"""Kafka and its tools on a data directory of ours, and the reverse."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from compat_brokers import ApacheBroker, Broker
from compat_confluent import PATIENCE_S, consumer, make_topic, produce, read_all, take
from compat_tools import run
from confluent_kafka import TopicPartition

pytestmark = [pytest.mark.maven, pytest.mark.timeout(1000)]
Start = Callable[..., Broker]


@pytest.fixture
def filled(own_broker: Start, unique: Callable[[str], str]) -> tuple[Broker, str, str]:
    """A broker, stopped cleanly, with many segments, all codecs, and a group that committed."""
    broker = own_broker()
    topic, group = unique("topic"), unique("group")
    make_topic(broker.bootstrap, topic, segment_bytes="1048576", index_interval_bytes="1000")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        records = [
            {
                "key": f"{codec} {i}",
                "value": os.urandom(1500).hex(),
                "headers": [("codec", codec.encode())],
            }
            for i in range(300)
        ]
        produce(broker.bootstrap, topic, records, compression_type=codec, enable_idempotence=True,
                batch_num_messages=20)  # fmt: skip
    produce(broker.bootstrap, topic, [{"key": "tombstone", "value": None}])
    reader = consumer(broker.bootstrap, group_id=group)
    reader.subscribe([topic])
    reader.commit(message=take(reader, 700)[-1], asynchronous=False)
    reader.close()
    broker.stop()
    return broker, topic, group


def files(broker: Broker, topic: str, suffix: str) -> list[Path]:
    return sorted((broker.data_directory / f"{topic}-0").glob(f"*{suffix}"))


def test_dump_log_reads_every_segment(filled: tuple[Broker, str, str]) -> None:
    broker, topic, _ = filled
    logs = files(broker, topic, ".log")
    assert len(logs) > 3
    dumped = run(
        "DumpLogSegments", "--deep-iteration", "--print-data-log",
        "--files", ",".join(str(log) for log in logs),
    ).output  # fmt: skip
    assert "isvalid: false" not in dumped
    assert "Found" not in dumped  # "Found N invalid bytes at the end of ..."
    offsets = [int(n) for n in re.findall(r"^\| offset: (\d+)", dumped, re.MULTILINE)]
    assert offsets == list(range(1501))
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        assert f"compresscodec: {codec}" in dumped
    assert "key: tombstone" in dumped


def test_dump_log_reads_every_index(filled: tuple[Broker, str, str]) -> None:
    broker, topic, _ = filled
    for suffix in (".index", ".timeindex"):
        indexes = files(broker, topic, suffix)
        assert len(indexes) > 3
        for index in indexes:
            dumped = run("DumpLogSegments", "--files", str(index)).output
            assert "Mismatches" not in dumped
            assert "Index timestamp mismatch" not in dumped
            assert "out of order" not in dumped
            assert "non-full" not in dumped.lower() or "passed" in dumped
        checked = run("DumpLogSegments", "--index-sanity-check", "--files", str(indexes[0])).output
        assert "passed sanity check" in checked


def test_dump_log_reads_producer_snapshots(filled: tuple[Broker, str, str]) -> None:
    broker, topic, _ = filled
    snapshots = files(broker, topic, ".snapshot")
    assert snapshots
    dumped = run("DumpLogSegments", "--files", str(snapshots[-1])).output
    assert dumped.count("producerId:") == 5
    assert re.search(r"producerEpoch: 0 .*lastSequence: 299", dumped) or "lastSequence" in dumped


def test_dump_log_decodes_consumer_offsets(filled: tuple[Broker, str, str]) -> None:
    broker, topic, group = filled
    logs = [
        log
        for log in broker.data_directory.glob("__consumer_offsets-*/*.log")
        if log.stat().st_size > 0
    ]
    assert logs
    dumped = run(
        "DumpLogSegments", "--offsets-decoder", "--files", ",".join(str(log) for log in logs)
    ).output
    assert "isvalid: false" not in dumped
    assert f'"group":"{group}","topic":"{topic}","partition":0' in dumped
    assert '"offset":700' in dumped
    assert f'"group":"{group}"}}' in dumped  # the group's own metadata record
    assert '"protocolType":"consumer"' in dumped


def test_checkpoints_are_in_kafkas_format(filled: tuple[Broker, str, str]) -> None:
    broker, topic, _ = filled
    epochs = (broker.data_directory / f"{topic}-0" / "leader-epoch-checkpoint").read_text()
    assert epochs.splitlines() == ["0", "1", "0 0"]
    metadata = (broker.data_directory / f"{topic}-0" / "partition.metadata").read_text()
    assert re.fullmatch(r"version: 0\ntopic_id: \S{22}\n?", metadata)
    for name in ("recovery-point-offset-checkpoint", "log-start-offset-checkpoint",
                 "replication-offset-checkpoint"):  # fmt: skip
        lines = (broker.data_directory / name).read_text().splitlines()
        assert lines[0] == "0"
        assert int(lines[1]) == len(lines) - 2
    points = (broker.data_directory / "recovery-point-offset-checkpoint").read_text()
    assert f"{topic} 0 1501" in points
    properties = (broker.data_directory / "meta.properties").read_text()
    assert "version=" in properties
    assert "cluster.id=" in properties


@pytest.mark.parametrize("clean", [True, False])
def test_kafka_reads_a_partition_written_by_ottla(
    filled: tuple[Broker, str, str], tmp_path: Path, clean: bool
) -> None:
    """Our files in the place of Kafka's own: it loads them (unclean: recovers them), goes on."""
    broker, topic, _ = filled
    apache = ApacheBroker(tmp_path / "apache")
    _move_partition(broker, apache, topic, clean)


@pytest.mark.parametrize("clean", [True, False])
def test_ottla_reads_a_partition_written_by_kafka(
    own_broker: Start, tmp_path: Path, unique: Callable[[str], str], clean: bool
) -> None:
    apache = ApacheBroker(tmp_path / "apache")
    apache.start()
    topic = unique("topic")
    try:
        make_topic(apache.bootstrap, topic, segment_bytes="1048576", index_interval_bytes="1000")
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            records = [{"key": f"{codec} {i}", "value": os.urandom(1500).hex()} for i in range(300)]
            produce(
                apache.bootstrap, topic, records, compression_type=codec, enable_idempotence=True
            )
        produce(apache.bootstrap, topic, [{"key": "tombstone", "value": None}])
    finally:
        apache.stop()
    ours = own_broker()
    ours.stop()
    _move_partition(apache, ours, topic, clean)


def _move_partition(source: Broker, target: Broker, topic: str, clean: bool) -> None:
    """Both are stopped. The target gets the source's files of `topic-0`, under its own topic id."""
    target.start()
    make_topic(target.bootstrap, topic)
    target.stop()
    there = target.data_directory / f"{topic}-0"
    for old in there.iterdir():
        if old.name != "partition.metadata":
            old.unlink()
    for file in (source.data_directory / f"{topic}-0").iterdir():
        if file.name != "partition.metadata":
            shutil.copy(file, there / file.name)
    marker = target.data_directory / ".kafka_cleanshutdown"
    if not clean and marker.exists():
        marker.unlink()
    target.start()
    try:
        found = read_all(target.bootstrap, topic, 1501, check_crcs=True)
        assert [m.offset() for m in found] == list(range(1501))
        assert found[-1].key() == b"tombstone"
        reader = consumer(target.bootstrap)
        low, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_S)
        assert (low, high) == (0, 1501)
        at_ms = found[900].timestamp()[1]
        (at,) = reader.offsets_for_times([TopicPartition(topic, 0, at_ms)], timeout=PATIENCE_S)
        assert found[at.offset].timestamp()[1] >= at_ms
        assert at.offset <= 900
        reader.close()
        (delivered,) = produce(target.bootstrap, topic, [{"value": "next"}])
        assert delivered.offset() == 1501
    finally:
        target.stop()
