"""What a cleaning retains, what it removes, and what it never touches."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from cleaner_kit import (
    CONFIG,
    LIMITS,
    cleaner_for,
    compact,
    fill,
    headers,
    offsets,
    put,
    small_log,
    table,
)
from storage_kit import NOW, append, close, marker, read_all

from ottla.records.batch import AppendOrigin, build_batch
from ottla.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from ottla.records.record import Record
from ottla.storage.cleaner import Cleaner, CleanerConfig, measure_dirt
from ottla.storage.log import Log


def test_the_last_record_of_each_key_stays_at_its_offset() -> None:
    log = small_log()
    fill(log, keys=5, rounds=10)
    before = {record.offset: record for record in read_all(log)}
    active = log.segments.active.base_offset
    compact(log)
    left = read_all(log)
    assert [record for record in left if before[record.offset] != record] == []
    closed = [record for record in left if record.offset < active]
    assert sorted(record.key or b"" for record in closed) == sorted(
        {record.key or b"" for record in before.values() if record.offset < active}
    )
    for record in closed:
        later = [o for o, r in before.items() if r.key == record.key and record.offset < o < active]
        assert later == []


def test_the_active_segment_is_never_touched() -> None:
    log = small_log()
    fill(log)
    active = log.segments.active
    before = active.open_file().pread(active.size, 0)
    compact(log)
    assert log.segments.active is active
    assert active.open_file().pread(active.size, 0) == before


def test_small_segments_become_one() -> None:
    log = small_log()
    fill(log, keys=20, rounds=3)
    count = len(log.segments)
    compact(log)
    compact_again(log)
    assert len(log.segments) < count
    assert all(segment.size <= CONFIG.segment_bytes for segment in log.segments)


def compact_again(log: Log) -> None:
    """Adds a segment, so that something is dirty, and cleans again."""
    for _ in range(20):
        put(log, (b"again", b"x" * 20))
    compact(log)


def test_the_first_dirty_offset_moves_to_the_active_segment() -> None:
    log = small_log()
    fill(log)
    assert log.first_dirty_offset == 0
    compact(log)
    assert log.first_dirty_offset == log.segments.active.base_offset
    assert not measure_dirt(log, log.end_offset, NOW).is_due


def test_an_unchanged_batch_is_copied_verbatim() -> None:
    log = small_log()
    data = build_batch([Record(key=b"a", value=b"1", timestamp=NOW)], compression=GZIP)
    append(log, data)
    fill(log)
    compact(log)
    first = log.segments[0]
    assert first.open_file().pread(len(data), 0)[17:] == data[17:]  # base offset, epoch are ours


@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4, ZSTD])
def test_a_shrunk_batch_keeps_headers_timestamps_and_codec(codec: int) -> None:
    log = small_log(config=dataclasses.replace(CONFIG, segment_bytes=2000))
    records = [
        Record(
            key=b"key %d" % (i % 3 if i % 2 else 10 + i),
            value=b"value %d" % i * 10,
            timestamp=NOW - 100 + 7 * (i % 5),
            headers=[("name", b"x"), ("empty", None)],
        )
        for i in range(12)
    ]
    append(log, build_batch(records, compression=codec))
    log.roll(NOW)
    compact(log)
    left = read_all(log)
    assert [record.offset for record in left] == [0, 2, 4, 6, 7, 8, 9, 10, 11]
    for record in left:
        wanted = records[record.offset]
        assert (record.key, record.value, record.timestamp) == (
            wanted.key, wanted.value, wanted.timestamp)  # fmt: skip
        assert record.headers == wanted.headers
    (header,) = headers(log)
    assert header.compression == codec
    assert header.last_offset == 11
    assert header.record_count == 9
    assert header.max_timestamp == max(record.timestamp for record in left)


def test_append_time_is_kept() -> None:
    log = small_log(config=dataclasses.replace(CONFIG, message_timestamp_type="LogAppendTime"))
    append(log, build_batch([Record(key=b"a", value=b"1"), Record(key=b"b", value=b"1")]))
    append(log, build_batch([Record(key=b"a", value=b"2")]), now_ms=NOW + 5)
    log.roll(NOW + 5)
    compact(log, now_ms=NOW + 5)
    assert [(r.offset, r.timestamp) for r in read_all(log)] == [(1, NOW), (2, NOW + 5)]


def test_a_tombstone_is_removed_after_its_delete_horizon() -> None:
    log = small_log()
    put(log, (b"a", b"1"), (b"b", b"1"))
    put(log, (b"a", None), (b"c", b"1"), timestamp=NOW + 3)
    log.roll(NOW)
    compact(log, now_ms=NOW + 10)
    assert [(r.offset, r.value, r.timestamp) for r in read_all(log)] == [
        (1, b"1", NOW),
        (2, None, NOW + 3),
        (3, b"1", NOW + 3),
    ]
    assert headers(log)[1].delete_horizon_ms == NOW + 10 + CONFIG.delete_retention_ms
    dirty(log)
    compact(log, now_ms=NOW + 10 + CONFIG.delete_retention_ms - 1)
    assert 2 in offsets(log)
    dirty(log)
    compact(log, now_ms=NOW + 10 + CONFIG.delete_retention_ms)
    assert 2 not in offsets(log)
    assert [r.timestamp for r in read_all(log) if r.offset == 3] == [NOW + 3]
    assert table(log)[b"c"] == b"1"


def dirty(log: Log) -> None:
    """Something to clean, so that all segments are read again."""
    put(log, (b"dirt", b"x"))
    log.roll(NOW)


def test_a_tombstone_supersedes_earlier_records() -> None:
    log = small_log()
    put(log, (b"a", b"1"))
    put(log, (b"a", None))
    log.roll(NOW)
    compact(log)
    assert offsets(log) == [1]


def test_records_without_a_key_are_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    log = small_log(config=dataclasses.replace(CONFIG, cleanup_policy=frozenset(("delete",))))
    put(log, (None, b"old"), (b"a", b"1"))
    put(log, (None, b"old"))
    log.reconfigure(CONFIG)
    log.roll(NOW)
    with caplog.at_level(logging.WARNING):
        finished = compact(log)
    assert finished.records_without_key == 2
    assert "2 records without a key" in caplog.text
    assert offsets(log) == [1]


def test_long_keys_are_distinguished() -> None:
    log = small_log(config=dataclasses.replace(CONFIG, segment_bytes=100_000))
    long = b"k" * 500
    put(log, (long + b"1", b"a"), (long + b"2", b"b"), (long + b"1", b"c"))
    log.roll(NOW)
    compact(log)
    assert offsets(log) == [1, 2]


def test_an_empty_log_has_nothing_to_clean() -> None:
    log = small_log()
    assert not measure_dirt(log, log.end_offset, NOW).is_due
    put(log, (b"a", b"1"))
    assert not measure_dirt(log, log.end_offset, NOW).is_due  # the active segment


def test_an_emptied_range_keeps_its_end_offset() -> None:
    log = small_log()
    put(log, (b"a", b"1"))
    log.roll(NOW)
    put(log, (b"a", b"2"))
    log.roll(NOW)
    put(log, (b"a", None))
    log.roll(NOW)
    compact(log)
    dirty(log)
    compact(log, now_ms=NOW + 5000)
    assert offsets(log) == [3]
    put(log, (b"dirt", b"y"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 5000)
    files = log.dir.files
    close(log)
    assert offsets(small_log(files)) == [4]


# Producers and transactions


def test_the_last_batch_of_a_producer_stays_as_a_header() -> None:
    log = small_log()
    put(log, (b"a", b"1"), (b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=0)
    put(log, (b"a", b"2"), (b"b", b"2"), producer_id=7, producer_epoch=0, base_sequence=2)
    put(log, (b"a", b"3"), (b"b", b"3"))
    log.roll(NOW)
    compact(log)
    assert offsets(log) == [4, 5]
    first, _ = headers(log)
    assert (first.base_offset, first.last_offset, first.record_count) == (2, 3, 0)
    assert (first.producer_id, first.base_sequence, first.last_sequence) == (7, 2, 3)
    assert first.base_timestamp == -1
    files = log.dir.files
    again = small_log(files, clean=False)
    assert [(p.producer_id, p.last_sequence) for p in again.producers()] == [(7, 3)]


def transact(log: Log, producer_id: int, *pairs: tuple[bytes, bytes], sequence: int = 0) -> int:
    return put(
        log, *pairs, producer_id=producer_id, producer_epoch=0, base_sequence=sequence,
        transactional=True,
    )  # fmt: skip


def end(log: Log, producer_id: int, *, commit: bool) -> None:
    append(log, marker(producer_id, commit=commit), origin=AppendOrigin.COORDINATOR)


def test_aborted_records_are_removed_and_supersede_nothing() -> None:
    log = small_log()
    put(log, (b"a", b"committed"))
    transact(log, 1, (b"a", b"aborted"), (b"b", b"aborted"))
    end(log, 1, commit=False)
    transact(log, 2, (b"c", b"committed"))
    end(log, 2, commit=True)
    log.roll(NOW)
    compact(log)
    # Producer 1's header (1, 2), its marker (3), the others' records and marker.
    assert [r.offset for r in read_all(log) if r.value in (b"committed", b"aborted")] == [0, 4]
    assert [h.base_offset for h in headers(log) if h.control] == [3, 5]
    assert log.aborted(0, log.end_offset) == [(1, 1)]  # as long as a batch of it is there


def test_a_marker_is_removed_after_its_transaction_and_its_delete_horizon() -> None:
    log = small_log()
    transact(log, 1, (b"a", b"1"))
    end(log, 1, commit=True)
    transact(log, 1, (b"b", b"1"), sequence=1)
    end(log, 1, commit=False)
    transact(log, 1, (b"c", b"1"), sequence=2)
    end(log, 1, commit=True)
    put(log, (b"a", b"2"))
    log.roll(NOW)
    compact(log)  # takes the records of the first two transactions
    assert [h.base_offset for h in headers(log)] == [1, 3, 4, 5, 6]
    dirty(log)
    compact(log, now_ms=NOW + 1)  # finds their markers alone
    horizons = {h.base_offset: h.delete_horizon_ms for h in headers(log)}
    assert horizons[1] == horizons[3] == NOW + 1 + CONFIG.delete_retention_ms
    assert horizons[5] is None
    dirty(log)
    compact(log, now_ms=NOW + 1 + CONFIG.delete_retention_ms)
    assert [h.base_offset for h in headers(log)][:3] == [4, 5, 6]
    assert log.aborted(0, log.end_offset) == []


def test_nothing_beyond_the_last_stable_offset_is_cleaned() -> None:
    log = small_log()
    put(log, (b"a", b"1"))
    log.roll(NOW)
    transact(log, 1, (b"a", b"2"))
    put(log, (b"a", b"3"))
    log.roll(NOW)
    compact(log)
    assert offsets(log) == [0, 1, 2]
    assert log.first_dirty_offset == 1
    end(log, 1, commit=True)
    log.roll(NOW)
    compact(log)
    assert 0 not in offsets(log)


def test_a_transaction_whose_marker_is_in_the_active_segment_is_decided() -> None:
    log = small_log()
    put(log, (b"a", b"1"))
    transact(log, 1, (b"a", b"aborted"))
    log.roll(NOW)
    end(log, 1, commit=False)
    compact(log)
    assert [r.value for r in read_all(log) if r.value == b"aborted"] == []
    assert table(log) == {b"a": b"1"}


def test_an_old_aborted_transaction_does_not_affect_the_next() -> None:
    """Its batch is in the clean part, from which keys are not read again: its end must show."""
    log = small_log()
    transact(log, 1, (b"x", b"aborted"))
    end(log, 1, commit=False)
    put(log, (b"a", b"old"))
    log.roll(NOW)
    compact(log)
    assert log.aborted(0, log.end_offset) == [(1, 0)]
    transact(log, 1, (b"a", None), (b"b", b"new"), sequence=1)
    end(log, 1, commit=True)
    for number in range(3):
        log.roll(NOW)
        compact(log, now_ms=NOW + number * CONFIG.delete_retention_ms)
        assert table(log, log.aborted(0, log.end_offset)).get(b"b") == b"new"
        assert b"a" not in table(log, log.aborted(0, log.end_offset))
        dirty(log)


# How far, and when


def test_min_compaction_lag_protects_recent_records() -> None:
    config = dataclasses.replace(CONFIG, min_compaction_lag_ms=100)
    log = small_log(config=config)
    put(log, (b"a", b"1"), timestamp=NOW)
    log.roll(NOW)
    put(log, (b"a", b"2"), timestamp=NOW + 50)
    log.roll(NOW)
    assert measure_dirt(log, log.end_offset, NOW + 99).dirty_size == 0
    assert measure_dirt(log, log.end_offset, NOW + 100).end_offset == 1
    assert measure_dirt(log, log.end_offset, NOW + 150).end_offset == 2


def test_the_ratio_decides_and_max_compaction_lag_overrules_it() -> None:
    config = dataclasses.replace(CONFIG, min_cleanable_dirty_ratio=0.6, max_compaction_lag_ms=1000)
    log = small_log(config=config)
    put(log, (b"a", b"1" * 50))
    log.roll(NOW)
    compact(log)
    put(log, (b"b", b"1" * 50))
    log.roll(NOW)
    found = measure_dirt(log, log.end_offset, NOW)
    assert (found.ratio, found.is_due) == (0.5, False)
    assert measure_dirt(log, log.end_offset, NOW + 1001).is_due


def test_max_compaction_lag_rolls_the_active_segment() -> None:
    log = small_log(config=dataclasses.replace(CONFIG, max_compaction_lag_ms=1000))
    put(log, (b"a", b"1"))
    put(log, (b"a", b"1"), timestamp=NOW + 1001)
    assert len(log.segments) == 2


def test_the_dirtiest_log_is_cleaned_first_and_none_twice() -> None:
    first, second = small_log(), small_log()
    fill(first)
    compact(first)
    fill(first, rounds=3)
    fill(second)
    cleaner = Cleaner(lambda log: log.end_offset)
    one = cleaner.next_task([first, second], LIMITS, NOW)
    two = cleaner.next_task([first, second], LIMITS, NOW)
    assert one is not None
    assert two is not None
    assert (one.log, two.log) == (second, first)
    assert cleaner.next_task([first, second], LIMITS, NOW) is None
    cleaner.end(one)
    assert cleaner.next_task([first, second], LIMITS, NOW) is not None


def test_a_log_that_is_not_compacted_is_left_alone() -> None:
    log = small_log()
    fill(log)
    log.reconfigure(dataclasses.replace(CONFIG, cleanup_policy=frozenset(("delete",))))
    assert cleaner_for(log).next_task([log], LIMITS, NOW) is None


def test_a_table_that_is_too_small_cleans_in_several_passes() -> None:
    log = small_log(config=dataclasses.replace(CONFIG, segment_bytes=300))
    fill(log, keys=30, rounds=3)
    expected = table(log)
    limits = CleanerConfig(table_size=200 * 8, buffer_size=1 << 16, bytes_per_second=None)
    passes = 0
    while measure_dirt(log, log.end_offset, NOW).is_due:
        before = log.first_dirty_offset
        compact(log, limits=limits)
        assert log.first_dirty_offset > before
        passes += 1
    assert passes > 3
    assert table(log) == expected
    active = log.segments.active.base_offset
    keys = [record.key for record in read_all(log) if record.offset < active]
    assert len(keys) == len(set(keys)) == 30


def test_retention_applies_to_compact_and_delete() -> None:
    config = dataclasses.replace(
        CONFIG, cleanup_policy=frozenset(("compact", "delete")), retention_ms=1000
    )
    log = small_log(config=config)
    put(log, (b"a", b"1"), timestamp=NOW - 2000)
    log.roll(NOW)
    put(log, (b"b", b"1"), timestamp=NOW)
    log.roll(NOW)
    compact(log)
    log.retain(NOW)
    assert offsets(log) == [0, 1]  # they became one segment, as recent as its most recent record
    log.retain(NOW + 1001)
    assert offsets(log) == []
