"""What kafka-dump-log shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_kit import NOW, append, batch, marker

from ottla.records.batch import AppendOrigin
from ottla.storage import dump
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore

CONFIG = LogConfig(index_interval_bytes=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A partition with a transaction that was aborted and one that is open."""
    store = LogStore.open([str(tmp_path)], CONFIG, NOW)
    log = store.create("t", 0, bytes(16), now_ms=NOW)
    append(log, batch(b"one", b"two", timestamp=NOW), leader_epoch=3)
    producer = {"producer_id": 7, "producer_epoch": 1}
    append(log, batch(b"x", base_sequence=0, transactional=True, **producer), leader_epoch=3)
    append(log, marker(7, commit=False, epoch=1), origin=AppendOrigin.COORDINATOR, leader_epoch=3)
    append(log, batch(b"y", base_sequence=1, transactional=True, **producer), leader_epoch=3)
    store.close(NOW)
    return tmp_path / "t-0"


def test_a_log_is_shown_batch_by_batch(folder: Path) -> None:
    path = str(folder / "00000000000000000000.log")
    first, second, third, *_ = dump.dump_lines(path)
    assert first == f"Dumping {path}"
    assert second == "Log starting offset: 0"
    found = next(dump.batches(path))
    assert third == (
        "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 "
        "producerEpoch: -1 partitionLeaderEpoch: 3 isTransactional: false isControl: false "
        f"deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: {NOW} "
        f"size: {found.header.size} magic: 2 compresscodec: none crc: {found.header.crc} "
        "isvalid: true"
    )


def test_records_are_shown_on_demand(folder: Path) -> None:
    path = str(folder / "00000000000000000000.log")
    shown = [line for line in dump.dump_lines(path, contents=True) if line.startswith("|")]
    assert shown == [
        f"| offset: 0 CreateTime: {NOW} keySize: 1 valueSize: 3 sequence: -1 headerKeys: [] "
        "key: k payload: one",
        f"| offset: 1 CreateTime: {NOW} keySize: 1 valueSize: 3 sequence: -1 headerKeys: [] "
        "key: k payload: two",
        f"| offset: 2 CreateTime: {NOW} keySize: 1 valueSize: 1 sequence: 0 headerKeys: [] "
        "key: k payload: x",
        f"| offset: 3 CreateTime: {NOW} keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] "
        "endTxnMarker: ABORT coordinatorEpoch: 0",
        f"| offset: 4 CreateTime: {NOW} keySize: 1 valueSize: 1 sequence: 1 headerKeys: [] "
        "key: k payload: y",
    ]
    assert not any("payload" in line for line in dump.dump_lines(path, records=True))


def test_indexes_are_shown(folder: Path) -> None:
    path = str(folder / "00000000000000000000.index")
    positions = [found.position for found in dump.batches(path.replace(".index", ".log"))]
    assert list(dump.dump_lines(path))[1:] == [
        f"offset: {offset} position: {position}"
        for offset, position in zip((2, 3, 4), positions[1:], strict=True)
    ]
    assert list(dump.dump_lines(path.replace(".index", ".timeindex")))[1:] == [
        f"timestamp: {NOW} offset: 1"
    ]
    assert list(dump.dump_lines(path.replace(".index", ".txnindex")))[1:] == [
        "version: 0 producerId: 7 firstOffset: 2 lastOffset: 3 lastStableOffset: 4"
    ]


def test_a_snapshot_is_shown(folder: Path) -> None:
    (line,) = list(dump.dump_lines(str(folder / "00000000000000000005.snapshot")))[1:]
    assert line == (
        "producerId: 7 producerEpoch: 1 coordinatorEpoch: 0 currentTxnFirstOffset: "
        f"OptionalLong[4] lastTimestamp: {NOW} firstSequence: 1 lastSequence: 1 lastOffset: 4 "
        f"offsetDelta: 0 timestamp: {NOW}"
    )


def test_a_batch_with_a_wrong_checksum_is_shown_as_such(folder: Path) -> None:
    path = folder / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    lines = list(dump.dump_lines(str(path)))
    assert lines[-1].endswith("isvalid: false")
    assert lines[-2].endswith("isvalid: true")


def test_bytes_outside_batches_are_counted(folder: Path) -> None:
    path = folder / "00000000000000000000.log"
    path.write_bytes(path.read_bytes() + b"rubbish")
    *_, last = dump.dump_lines(str(path))
    assert last == "Found 7 invalid bytes at the end of 00000000000000000000.log"


def test_dump_says_that_an_index_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(b"")
    assert list(dump.dump_lines(str(path))) == [f"Dumping {path}", f"{path} is empty."]


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"")
    with pytest.raises(dump.UnknownFileError):
        list(dump.dump_lines(str(path)))
