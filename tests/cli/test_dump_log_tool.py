"""kafka-dump-log on files that are written here; the lines are Apache Kafka 4.3.1's."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.kafka.dump_log import main
from ottla.client import Consumer
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing import LocalCluster

Tool = Callable[..., Any]


@pytest.fixture
def dump(run: Tool) -> Tool:
    return lambda path, *words: run(main, "--files", str(path), *words)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two batches: offsets 0 to 1 and 2."""
    first = build_batch(
        [Record(0, 1000, b"k", b"one", [("h", b"1")]), Record(1, 1001, None, b"two", [])],
        leader_epoch=3,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
    )
    second = build_batch([Record(2, 2000, b"gone", None, [])], base_offset=2, leader_epoch=3)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(first + second)
    return path


def test_batches(dump: Tool, log: Path) -> None:
    ran = dump(log)
    assert ran.lines[:2] == [f"Dumping {log}", "Log starting offset: 0"]
    assert re.fullmatch(
        r"baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 5 lastSequence: 6 producerId: 7"
        r" producerEpoch: 1 partitionLeaderEpoch: 3 isTransactional: false isControl: false"
        r" deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 size: \d+ magic: 2"
        r" compresscodec: none crc: \d+ isvalid: true",
        ran.lines[2],
    )
    assert len(ran.lines) == 4


def test_records(dump: Tool, log: Path) -> None:
    first = "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 3 sequence: 5 headerKeys: [h]"
    assert dump(log, "--deep-iteration").lines[3] == first
    shown = dump(log, "--print-data-log").lines
    assert shown[3] == f"{first} key: k payload: one"
    assert shown[-1].endswith("valueSize: -1 sequence: -1 headerKeys: [] key: gone")
    bare = dump(log, "--print-data-log", "--skip-record-metadata").lines
    assert bare[3:5] == ["| key: k payload: one", "| payload: two"]


def test_decoders(dump: Tool, tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(build_batch([Record(0, 0, b"k", struct.pack(">q", 9), [])]))
    name = "org.apache.kafka.tools.api.LongDecoder"
    assert dump(path, "--value-decoder-class", name).lines[-1].endswith("key: k payload: 9")
    assert dump(path, "--key-decoder-class", name).code == 1


def test_a_torn_end(dump: Tool, log: Path) -> None:
    data = log.read_bytes()
    log.write_bytes(data[:-10])
    assert re.fullmatch(
        r"Found \d+ invalid bytes at the end of 00000000000000000000.log", dump(log).lines[-1]
    )


def test_a_flipped_byte(dump: Tool, log: Path) -> None:
    data = bytearray(log.read_bytes())
    data[70] ^= 1
    log.write_bytes(data)
    assert dump(log).lines[2].endswith("isvalid: false")


def test_max_bytes(dump: Tool, log: Path) -> None:
    assert len(dump(log, "--max-bytes", "120").lines) == 3


def test_an_offset_index_is_compared_with_its_log(dump: Tool, log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">iiii", 1, 0, 9, 5))
    ran = dump(index)
    assert ran.lines == [f"Dumping {index}", "offset: 1 position: 0", "offset: 9 position: 5"]
    assert ran.err == f"Mismatches in :{index}\n  Index offset: 9, log offset: -1\n"
    only = dump(index, "--verify-index-only")
    assert (only.lines, only.err) == ([f"Dumping {index}"], ran.err)
    sane = dump(index, "--index-sanity-check")
    assert sane.lines[-1] == f"{index} passed sanity check."


def test_the_zeros_behind_an_index_are_not_entries(dump: Tool, log: Path) -> None:
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 1, 0) + bytes(8000))
    assert dump(index).lines == [f"Dumping {index}", "offset: 1 position: 0"]


def test_a_time_index_is_compared_with_its_log(dump: Tool, log: Path) -> None:
    index = log.with_suffix(".timeindex")
    index.write_bytes(struct.pack(">qiqi", 1001, 1, 900, 2))
    ran = dump(index)
    assert ran.lines[1:] == ["timestamp: 1001 offset: 1", "timestamp: 900 offset: 2"]
    assert ran.err.splitlines() == [
        f"Found timestamp mismatch in :{index}",
        "  Index timestamp: 900, log timestamp: 2000",
        f"Found out of order timestamp in :{index}",
        "  Index timestamp: 900, Previously indexed timestamp: 1001",
    ]


def test_other_files_are_refused(dump: Tool, tmp_path: Path) -> None:
    other = tmp_path / "leader-epoch-checkpoint"
    other.write_text("0\n0\n")
    assert dump(other).err == f"Ignoring unknown file {other}\n"
    missing = dump(tmp_path / f"{0:020d}.log")
    assert "No such file or directory" in missing.err
    assert missing.code == 1


def test_the_offsets_of_groups(dump: Tool, tmp_path: Path) -> None:
    with LocalCluster(directory=tmp_path) as cluster:
        with cluster.producer() as producer:
            producer.send("t", b"x").result(60)
        with Consumer(
            cluster.bootstrap_servers, "t", group="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.take(1)
    (log,) = tmp_path.rglob("__consumer_offsets-0/*.log")
    ran = dump(log, "--offsets-decoder")
    assert 'key: {"type":"1","data":{"group":"g","topic":"t","partition":0}}' in ran.out
    assert 'key: {"type":"2","data":{"group":"g"}} payload: {"version":"3"' in ran.out
    assert '"subscription":{"topics":["t"],' in ran.out
    assert '"assignment":{"assignedPartitions":[{"topic":"t","partitions":[0]}]' in ran.out
