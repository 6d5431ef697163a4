"""Deletion by retention, DeleteRecords and truncation, and the removal of files."""

from __future__ import annotations

import pytest
from storage_kit import NOW, PATH, append, batch, close, marker, open_memory_log, read_all, values

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin
from ottla.storage.log import Log, LogConfig
from ottla.storage.log_dir import LogDir, RemoveJob
from ottla.testing.memory_files import MemoryFiles

ONE = len(batch(b"v" * 50))


def filled(count: int, *, files: MemoryFiles | None = None, **settings: object) -> Log:
    """A log with two records in each segment, a second apart."""
    log = open_memory_log(files, config=LogConfig(segment_bytes=2 * ONE, **settings))
    for index in range(count):
        append(log, batch(b"v" * 50, timestamp=NOW + index * 1000), now_ms=NOW + index * 1000)
    return log


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_retention_by_time_goes_by_the_largest_timestamp_of_a_segment() -> None:
    log = filled(6, retention_ms=10_000)
    assert log.retain(NOW + 11_000) == 0
    assert log.retain(NOW + 11_001) == 1
    assert bases(log) == [2, 4]
    assert log.start_offset == 2
    assert log.size == 4 * ONE


def test_retention_by_time_takes_the_active_segment_too() -> None:
    log = filled(5, retention_ms=10_000)
    assert log.retain(NOW + 100_000) == 3
    assert (log.start_offset, log.end_offset) == (5, 5)
    assert bases(log) == [5]
    assert append(log, batch(timestamp=NOW)).first_offset == 5


def test_an_empty_log_is_left_alone() -> None:
    log = filled(0, retention_ms=0, retention_bytes=0)
    assert log.retain(NOW + 100_000) == 0


def test_retention_by_size_leaves_at_least_that_much() -> None:
    log = filled(8, retention_bytes=4 * ONE + 1)
    assert log.retain(NOW) == 1
    assert bases(log) == [2, 4, 6]


def test_retention_goes_by_the_files_time_where_records_have_none() -> None:
    files = MemoryFiles()
    log = open_memory_log(files, config=LogConfig(segment_bytes=2 * ONE, retention_ms=1000))
    for _ in range(4):
        append(log, batch(b"v" * 50, timestamp=-1))
    for node in files.nodes.values():
        node.modified_ms = NOW
    assert log.retain(NOW + 1000) == 0
    assert log.retain(NOW + 1001) == 2


def test_no_limits_keep_everything() -> None:
    log = filled(8, retention_ms=-1, retention_bytes=-1)
    assert log.retain(NOW + 10**12) == 0


def test_unreplicated_records_are_kept() -> None:
    log = filled(6, retention_ms=0)
    assert log.retain(NOW + 100_000, high_watermark=3) == 1
    assert bases(log) == [2, 4]


def test_a_compacted_topic_is_not_deleted_by_retention() -> None:
    log = filled(6, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset(("compact",)))
    assert log.retain(NOW + 100_000) == 0
    log.reconfigure(LogConfig(retention_ms=0, cleanup_policy=frozenset(("compact", "delete"))))
    assert log.retain(NOW + 100_000) == 3


def test_delete_records_moves_the_start_and_drops_whole_segments() -> None:
    log = filled(6)
    assert log.delete_records(3) == 3
    assert bases(log) == [2, 4]
    assert [record.offset for record in read_all(log)] == [3, 4, 5]
    with pytest.raises(KafkaError) as error:
        log.read(2, size_max=100, end_offset=6)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.delete_records(1) == 3
    with pytest.raises(KafkaError) as error:
        log.delete_records(7)
    assert error.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_delete_records_up_to_the_end() -> None:
    log = filled(6)
    assert log.delete_records(6) == 6
    assert read_all(log) == []
    append(log, batch(b"next", timestamp=NOW))
    assert values(log) == [b"next"]


def test_a_start_offset_inside_a_compacted_topic_drops_segments_too() -> None:
    log = filled(6, cleanup_policy=frozenset(("compact",)))
    log.delete_records(5)
    assert bases(log) == [4]


def test_files_are_renamed_at_once_and_removed_after_the_delay() -> None:
    files = MemoryFiles()
    directory = LogDir(files, "/data")
    log = open_memory_log(
        files,
        config=LogConfig(segment_bytes=2 * ONE, retention_bytes=0, file_delete_delay_ms=500),
        directory=directory,
    )
    for index in range(4):
        append(log, batch(b"%d" % index * 50))
    log.retain(NOW)
    names = sorted(name for name in files.nodes if name.endswith(".deleted"))
    assert names == [
        f"{PATH}/{base:020d}.{suffix}.deleted"
        for base in (0, 2)
        for suffix in ("index", "log", "timeindex")
    ]
    assert directory.take_due(NOW + 499) == []
    due = directory.take_due(NOW + 500)
    assert RemoveJob([(directory, path) for path in due]).run() == 6
    assert not any(name.endswith(".deleted") for name in files.nodes)
    assert directory.take_due(NOW + 500) == []


def test_files_waiting_for_removal_are_removed_by_the_next_start() -> None:
    files = MemoryFiles()
    log = filled(6, files=files, retention_bytes=0)
    log.retain(NOW)
    close(log)
    log = open_memory_log(files)
    assert not any(name.endswith(".deleted") for name in files.nodes)
    assert (log.start_offset, log.end_offset) == (6, 6)


def test_snapshots_go_with_their_segments() -> None:
    files = MemoryFiles()
    log = filled(6, files=files)
    assert log.snapshots.offsets == {2, 4}
    log.delete_records(4)
    assert log.snapshots.offsets == {4}
    assert [name for name in files.nodes if name.endswith(".snapshot")] == [
        f"{PATH}/00000000000000000004.snapshot"
    ]


def test_epochs_before_the_start_are_forgotten() -> None:
    log = open_memory_log()
    for epoch in range(4):
        append(log, batch(), leader_epoch=epoch)
    log.delete_records(2)
    assert log.epochs.entries() == [(2, 2), (3, 3)]


@pytest.mark.parametrize("offset", range(7))
def test_truncate_to_keeps_exactly_what_is_before(offset: int) -> None:
    files = MemoryFiles()
    log = filled(6, files=files)
    assert log.truncate_to(offset, NOW) is (offset < 6)
    assert log.end_offset == min(offset, 6)
    assert [record.offset for record in read_all(log)] == list(range(min(offset, 6)))
    assert log.size == min(offset, 6) * ONE
    appended = append(log, batch(b"new", timestamp=NOW))
    assert appended.first_offset == min(offset, 6)
    close(log)
    again = open_memory_log(files)
    assert values(again)[-1] == b"new"
    assert len(read_all(again)) == min(offset, 6) + 1


def test_truncate_inside_a_batch_takes_the_batch() -> None:
    log = open_memory_log()
    append(log, batch(b"a"))
    append(log, batch(b"b", b"c"))
    log.truncate_to(2, NOW)
    assert values(log) == [b"a"]


def test_truncate_forgets_producers_epochs_and_aborted_transactions() -> None:
    log = open_memory_log()
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=0), leader_epoch=0)
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=1, transactional=True))
    append(log, marker(7, commit=False), origin=AppendOrigin.COORDINATOR, leader_epoch=3)
    log.truncate_to(2, NOW)
    assert log.aborted(0, 2) == []
    assert log.first_unstable_offset == 1
    assert log.epochs.entries() == [(0, 0)]
    log.truncate_to(1, NOW)
    assert log.first_unstable_offset is None
    append(log, batch(producer_id=7, producer_epoch=0, base_sequence=1))


def test_truncate_lowers_the_largest_timestamp() -> None:
    log = open_memory_log()
    append(log, batch(timestamp=NOW))
    append(log, batch(timestamp=NOW + 100))
    append(log, batch(timestamp=NOW + 200))
    log.truncate_to(2, NOW)
    assert log.max_timestamp(end_offset=2) == (1, NOW + 100, 0)


def test_truncate_fully_starts_at_another_offset() -> None:
    files = MemoryFiles()
    log = filled(6, files=files)
    log.truncate_fully_and_start_at(100, NOW)
    assert (log.start_offset, log.end_offset, log.size) == (100, 100, 0)
    assert append(log, batch(timestamp=NOW)).first_offset == 100
    close(log)
    log = open_memory_log(files)
    assert (log.start_offset, log.end_offset) == (100, 101)


def test_truncate_below_the_first_segment_starts_over() -> None:
    log = filled(6)
    log.delete_records(4)
    log.truncate_to(1, NOW)
    assert (log.start_offset, log.end_offset) == (1, 1)
