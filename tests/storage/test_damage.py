"""Damage that a clean start does not notice: it costs only the damaged batches."""

from __future__ import annotations

import logging

import pytest
from storage_kit import NOW, PATH, append, batch, close, marker, open_memory_log, values

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, build_batch
from ottla.records.record import Record
from ottla.storage.checkpoints import DamagedError
from ottla.storage.log import Log, LogConfig
from ottla.testing.memory_files import MemoryFiles

ONE = len(batch(b"v" * 50))
CONFIG = LogConfig(segment_bytes=4 * ONE, index_interval_bytes=ONE)
LOG = f"{PATH}/00000000000000000000.log"
INDEX = f"{PATH}/00000000000000000000.index"
MAGIC_AT = 16
POSITION_AT = 4  # in an entry of the index


def closed(files: MemoryFiles, count: int, config: LogConfig = CONFIG) -> None:
    """A clean end of a log with one idempotent producer's batches, of one record each."""
    log = open_memory_log(files, config=config)
    for index in range(count):
        append(log, numbered(index))
    close(log)


def numbered(index: int) -> bytes:
    return batch(
        b"%02d" % index * 25,
        timestamp=NOW + index,
        producer_id=7,
        producer_epoch=0,
        base_sequence=index,
    )


def remove_snapshots(files: MemoryFiles) -> None:
    for path in [path for path in files.nodes if path.endswith(".snapshot")]:
        files.remove(path)


def snapshot_of_nothing(files: MemoryFiles) -> None:
    """A snapshot from before everything: then all batches are asked for their producers."""
    remove_snapshots(files)
    log = open_memory_log(files, config=CONFIG)
    log.snapshots.take(0, [])
    log.close()


def last_sequences(log: Log) -> list[int]:
    return [producer.last_sequence for producer in log.producers()]


def test_a_log_opens_though_its_producers_are_behind_damage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = MemoryFiles()
    closed(files, 4)
    snapshot_of_nothing(files)
    files.flip(LOG, ONE + MAGIC_AT)
    with caplog.at_level(logging.ERROR, "ottla.storage"):
        log = open_memory_log(files, config=CONFIG)
    assert log.end_offset == 4
    assert last_sequences(log) == [0]
    assert f"producer state is incomplete: no batch at position {ONE}" in caplog.text
    with pytest.raises(KafkaError) as error:
        append(log, numbered(4))
    assert error.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_log_opens_though_its_index_has_a_negative_position() -> None:
    files = MemoryFiles()
    config = LogConfig(index_interval_bytes=ONE)  # one segment: a clean start trusts its index
    closed(files, 8, config)
    files.flip(INDEX, POSITION_AT, 0x80)
    log = open_memory_log(files, config=config)
    assert last_sequences(log) == [7]
    assert append(log, numbered(4)).duplicate  # an earlier batch than that of the snapshot


def test_producers_in_the_segments_after_damage_are_known() -> None:
    files = MemoryFiles()
    closed(files, 7)
    snapshot_of_nothing(files)
    files.flip(LOG, MAGIC_AT)
    log = open_memory_log(files, config=CONFIG)
    assert last_sequences(log) == [6]
    assert append(log, numbered(7)).first_offset == 7


@pytest.mark.parametrize("byte", range(8))
def test_producers_are_not_read_from_an_impossible_offset(byte: int) -> None:
    files = MemoryFiles()
    closed(files, 4)
    snapshot_of_nothing(files)
    files.flip(LOG, ONE + byte, 0x40)
    log = open_memory_log(files, config=CONFIG)
    assert last_sequences(log) == [0]
    close(log)  # its snapshot has room for the offsets


@pytest.mark.parametrize("byte", range(4))  # further than 31 bits reach
@pytest.mark.parametrize("slot", range(4))
def test_indexes_are_rebuilt_up_to_an_impossible_offset(slot: int, byte: int) -> None:
    files = MemoryFiles()
    closed(files, 7)
    files.flip(LOG, slot * ONE + byte, 0x40)
    for suffix in (".index", ".timeindex"):
        files.remove(LOG.replace(".log", suffix))
    log = open_memory_log(files, config=CONFIG)
    segment = log.segments[0]
    timestamp, offset = segment.largest()
    assert timestamp == (NOW + slot - 1 if slot else -1)
    assert 0 <= offset < 4
    close(log)
    assert open_memory_log(files, config=CONFIG).end_offset == 7


@pytest.mark.parametrize("byte", [0, MAGIC_AT])
def test_a_truncation_succeeds_despite_earlier_damage(byte: int) -> None:
    """The index leads past it; but the largest timestamp is looked for from the start on."""
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(index_interval_bytes=0))
    for index in range(5):
        append(log, batch(b"%02d" % index * 25, timestamp=NOW - index))
    files.flip(LOG, ONE + byte, 0x40)
    log.segments.active.become_inactive()  # nothing is cached
    assert log.truncate_to(4)
    assert (log.end_offset, log.size) == (4, 4 * ONE)
    assert log.segments.active.largest() == (NOW, 0)
    assert append(log, batch(b"next")).first_offset == 4
    close(log)


def test_a_truncation_that_meets_damage_changes_nothing() -> None:
    files = MemoryFiles()
    closed(files, 7, LogConfig(segment_bytes=4 * ONE))
    log = open_memory_log(files)
    files.flip(LOG, ONE + MAGIC_AT)
    with pytest.raises(KafkaError) as error:
        log.truncate_to(2)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE
    assert (log.end_offset, len(log.segments), log.size) == (7, 2, 7 * ONE)
    assert append(log, numbered(7)).first_offset == 7


def test_recovery_forgets_a_batch_whose_marker_cannot_be_read() -> None:
    """Its checksum is right: only a look into it shows that the log ends before it."""
    files = MemoryFiles()
    config = LogConfig(index_interval_bytes=0)
    log = open_memory_log(files, config=config)
    append(log, batch(b"a"))
    append(log, marker(7, commit=True), origin=AppendOrigin.COORDINATOR)
    record = Record(timestamp=NOW + 99, key=b"\0", value=b"")
    bad = build_batch(
        [record], base_offset=2, leader_epoch=8, producer_id=7, producer_epoch=0, control=True
    )
    files.nodes[LOG].data += bad
    files.kill()
    log = open_memory_log(files, clean=False, config=config)
    assert log.end_offset == 2
    assert log.epochs.latest == 0
    assert log.segments.active.offset_index.last()[1] < log.size
    assert log.max_timestamp(end_offset=2) == (0, NOW, 0)
    assert append(log, batch(b"b")).first_offset == 2
    close(log)
    assert open_memory_log(files, config=config).end_offset == 3


def test_the_end_of_a_segment_holds_no_batch() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    segment = log.segments.active
    with pytest.raises(DamagedError):
        segment.header_at(segment.open_file(), segment.size)


def test_the_largest_timestamp_of_a_batch_that_is_gone_is_damage() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    log.segments.active.max_timestamp_offset = 5
    with pytest.raises(KafkaError) as error:
        log.max_timestamp(end_offset=1)
    assert error.value.code is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("name", ["9" * 20, f"{(1 << 63) - 1:020d}", "²" * 20, "１" * 20])
def test_a_file_not_named_by_an_offset_is_left_alone(name: str) -> None:
    files = MemoryFiles()
    append(open_memory_log(files), batch(b"a"))
    files.open(f"{PATH}/{name}.log", create=True)
    files.open(f"{PATH}/{name}.snapshot", create=True)
    files.kill()
    log = open_memory_log(files, clean=False)
    assert values(log) == [b"a"]
    assert f"{PATH}/{name}.log" in files.nodes
