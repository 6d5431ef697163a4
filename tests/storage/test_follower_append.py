"""A follower's append: batches are checked before the write, and fit the index after it."""

from __future__ import annotations

import errno

import pytest
from storage_kit import NOW, PATH, append, batch, close, open_memory_log, read_all, values

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.storage.log import Log, LogAppendInfo, LogConfig
from ottla.testing.memory_files import MemoryFiles

FAR = 1 << 40  # further than 31 bits reach
LOG = f"{PATH}/00000000000000000000.log"


def follow(log: Log, *batches: bytes) -> LogAppendInfo:
    return log.append_as_follower(memoryview(bytearray(b"".join(batches))), now_ms=NOW)


def bad_marker(base_offset: int) -> bytes:
    record = Record(timestamp=NOW, key=b"\0", value=b"")
    return build_batch(
        [record], base_offset=base_offset, producer_id=7, producer_epoch=0, control=True
    )


def test_a_marker_that_cannot_be_read_leaves_no_trace() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    before = bytes(files.nodes[LOG].data)
    good = batch(b"b", base_offset=1, leader_epoch=4, producer_id=9, producer_epoch=0)
    with pytest.raises(KafkaError) as error:
        follow(log, good, bad_marker(2))
    assert error.value.code is ErrorCode.INVALID_RECORD
    assert (log.end_offset, log.size, log.producers()) == (1, len(before), [])
    assert log.epochs.latest == 0
    assert files.nodes[LOG].data == before
    follow(log, good)
    assert values(log) == [b"a", b"b"]


@pytest.mark.parametrize("interval", [0, 4096])
def test_batches_too_far_apart_for_one_segment_are_split(interval: int) -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(index_interval_bytes=interval))
    near = [batch(b"%d" % at, base_offset=at, timestamp=NOW + at) for at in range(3)]
    far = [batch(b"%d" % at, base_offset=FAR + at, timestamp=NOW + 9 + at) for at in range(3)]
    appended = follow(log, *near, *far)
    assert (appended.last_offset, appended.record_count, log.end_offset) == (2, 3, 3)
    assert appended.size == log.size == sum(map(len, near))
    assert follow(log, *far).first_offset == FAR
    offsets = [0, 1, 2, FAR, FAR + 1, FAR + 2]
    assert [record.offset for record in read_all(log)] == offsets
    close(log)
    log = open_memory_log(files)
    assert [record.offset for record in read_all(log)] == offsets
    assert [segment.base_offset for segment in log.segments] == [0, FAR]
    assert log.max_timestamp(end_offset=log.end_offset) == (FAR + 2, NOW + 11, -1)


def test_the_last_offset_that_an_index_holds_stays_in_its_segment() -> None:
    log = open_memory_log(config=LogConfig(index_interval_bytes=0))
    last = (1 << 31) - 1
    follow(log, batch(), batch(base_offset=last))
    assert len(log.segments) == 1
    follow(log, batch(base_offset=last + 1))
    assert [segment.base_offset for segment in log.segments] == [0, last + 1]


def test_a_segment_for_unwritten_batches_is_removed() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    files.fill(20)
    with pytest.raises(KafkaError) as error:
        follow(log, batch(b"far", base_offset=FAR))
    assert error.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    files.heal()
    assert append(log, batch(b"b")).first_offset == 1
    assert [segment.base_offset for segment in log.segments] == [0, 1]
    assert values(log) == [b"a", b"b"]
    close(log)
    assert values(open_memory_log(files)) == [b"a", b"b"]


def test_a_disk_that_fails_leaves_no_trace_of_the_leaders_batches() -> None:
    files = MemoryFiles()
    log = open_memory_log(files)
    append(log, batch(b"a"))
    files.fail("pwrite", error=errno.ENOSPC)
    with pytest.raises(KafkaError):
        follow(log, batch(b"b", base_offset=1, leader_epoch=4))
    assert (log.end_offset, log.epochs.latest) == (1, 0)
    files.heal()
    assert follow(log, batch(b"b", base_offset=1, leader_epoch=4)).last_offset == 1
