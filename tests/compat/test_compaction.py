"""Compacted logs, read by clients; and moved between Ottla and Kafka, which both compacted them."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from compat_brokers import ApacheBroker, Broker
from compat_confluent import consumer, make_topic, produce
from compat_tools import run
from confluent_kafka import KafkaError, Message, TopicPartition

pytestmark = [pytest.mark.timeout(1000)]
Start = Callable[..., Broker]
State = dict[bytes, tuple[int, bytes | None]]

SETTINGS = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "100"}
KEYS = 200
PATIENCE_S = 60.0


def fill(bootstrap: str, topic: str, *, rounds: int = 6) -> State:
    """A few segments of the same keys, all codecs, tombstones: what a reader must end with."""
    make_topic(
        bootstrap, topic, cleanup_policy="compact", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
    )  # fmt: skip
    state: State = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        for number in range(rounds):
            records = [
                {
                    "key": f"key {i}",
                    "value": None if i % 10 == number else os.urandom(700).hex(),
                    "headers": [("codec", codec.encode())],
                }
                for i in range(KEYS)
            ]
            for message in produce(bootstrap, topic, records, compression_type=codec,
                                   enable_idempotence=True, batch_num_messages=20):  # fmt: skip
                state[message.key()] = (message.offset(), message.value())
    return state


def wait_for_cleaning(broker: Broker, topic: str, below: int) -> None:
    """Waits until the log is small and stays small."""
    directory = broker.data_directory / f"{topic}-0"
    deadline = time.monotonic() + PATIENCE_S
    sizes = [below + 1]
    while sizes[-10:] != sizes[-1:] * 10 or sizes[-1] > below:
        assert time.monotonic() < deadline, f"still {sizes[-1]} bytes:\n{broker.log_tail()}"
        time.sleep(0.1)
        try:
            sizes.append(sum(file.stat().st_size for file in directory.glob("*.log*")))
        except FileNotFoundError:
            continue


def read_to_end(bootstrap: str, topic: str) -> list[Message]:
    reader = consumer(bootstrap, enable_partition_eof=True, check_crcs=True)
    reader.assign([TopicPartition(topic, 0, 0)])
    found: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        message = reader.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.append(message)
        elif error.code() == KafkaError._PARTITION_EOF:
            reader.close()
            return found
        else:
            raise AssertionError(error)
    raise AssertionError(f"no end after {len(found)} records")


def check(bootstrap: str, topic: str, state: State) -> None:
    found = read_to_end(bootstrap, topic)
    offsets = [message.offset() for message in found]
    assert offsets == sorted(set(offsets))
    assert {m.key(): (m.offset(), m.value()) for m in found} == state
    assert len(found) < 2500  # of 6,000 and more; one segment is never compacted
    for message in found:
        assert message.headers()[0][0] == "codec"


def compacted(broker: Broker, topic: str) -> State:
    state = fill(broker.bootstrap, topic)
    wait_for_cleaning(broker, topic, below=2 * 1048576)
    check(broker.bootstrap, topic, state)
    return state


def test_a_compacted_topic_is_read_and_written_after_a_restart(
    own_broker: Start, topic_name: str
) -> None:
    broker = own_broker(**SETTINGS)
    state = compacted(broker, topic_name)
    for stop in (broker.stop, broker.kill):
        stop()
        broker.start()
        check(broker.bootstrap, topic_name, state)
        (delivered,) = produce(
            broker.bootstrap,
            topic_name,
            [{"key": "key 0", "value": "x", "headers": [("codec", b"")]}],
        )
        state[b"key 0"] = (delivered.offset(), b"x")
    check(broker.bootstrap, topic_name, state)


@pytest.mark.maven
def test_dump_log_reads_a_compacted_log(own_broker: Start, topic_name: str) -> None:
    broker = own_broker(**SETTINGS)
    compacted(broker, topic_name)
    broker.stop()
    directory = broker.data_directory / f"{topic_name}-0"
    logs = sorted(directory.glob("*.log"))
    dumped = run(
        "DumpLogSegments", "--deep-iteration", "--files", ",".join(str(log) for log in logs)
    ).output
    assert "isvalid: false" not in dumped
    assert "Found" not in dumped
    assert re.search(r"deleteHorizonMs: OptionalLong\[\d+\]", dumped)
    for suffix in (".index", ".timeindex"):
        for index in sorted(directory.glob(f"*{suffix}")):
            text = run("DumpLogSegments", "--files", str(index)).output
            assert "Mismatches" not in text
            assert "mismatch" not in text
    checkpoint = (broker.data_directory / "cleaner-offset-checkpoint").read_text().splitlines()
    assert checkpoint[0] == "0"
    assert re.fullmatch(rf"{topic_name} 0 \d+", checkpoint[2])


@pytest.mark.maven
@pytest.mark.parametrize("clean", [True, False])
def test_kafka_continues_a_log_compacted_by_ottla(
    own_broker: Start, tmp_path: Path, topic_name: str, clean: bool
) -> None:
    ours = own_broker(**SETTINGS)
    state = compacted(ours, topic_name)
    ours.stop()
    move(ours, ApacheBroker(tmp_path / "apache", SETTINGS), topic_name, state, clean)


@pytest.mark.maven
@pytest.mark.parametrize("clean", [True, False])
def test_ottla_continues_a_log_compacted_by_kafka(
    own_broker: Start, tmp_path: Path, topic_name: str, clean: bool
) -> None:
    apache = ApacheBroker(tmp_path / "apache", SETTINGS)
    apache.start()
    try:
        state = compacted(apache, topic_name)
    finally:
        apache.stop()
    ours = own_broker(**SETTINGS)
    ours.stop()
    move(apache, ours, topic_name, state, clean)


def move(source: Broker, target: Broker, topic: str, state: State, clean: bool) -> None:
    """Both are stopped. The target reads the source's files, and compacts them once more."""
    target.start()
    make_topic(
        target.bootstrap, topic, cleanup_policy="compact", segment_bytes="1048576",
        min_cleanable_dirty_ratio="0.01",
    )  # fmt: skip
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
        check(target.bootstrap, topic, state)
        records = [
            {"key": f"key {i % KEYS}", "value": os.urandom(700).hex(), "headers": [("codec", b"")]}
            for i in range(KEYS * 8)
        ]
        for message in produce(target.bootstrap, topic, records, batch_num_messages=20):
            state[message.key()] = (message.offset(), message.value())
        wait_for_cleaning(target, topic, below=2 * 1048576)
        check(target.bootstrap, topic, state)
    finally:
        target.stop()
