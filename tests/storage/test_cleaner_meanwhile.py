"""What happens to a log while it is cleaned, and how it is read afterwards."""

from __future__ import annotations

import logging

import pytest
from cleaner_kit import (
    CONFIG,
    LIMITS,
    answers,
    cleaner_for,
    compact,
    fill,
    offsets,
    put,
    small_log,
    table,
    task_for,
)
from storage_kit import NOW, close, read_all

from ottla.testing.memory_files import MemoryFiles


def test_a_log_truncated_meanwhile_is_not_swapped() -> None:
    log = small_log()
    fill(log)
    task = task_for(log)
    done = answers(task, log.dir.files)
    log.truncate_to(20)
    before = offsets(log)
    for answer in done:
        if answer.cleaned is not None:
            task.swap(answer.cleaned, NOW)
        else:
            assert answer.finished is not None
            task.finish(answer.finished)
    assert offsets(log) == before
    assert log.first_dirty_offset == 0


def test_segments_deleted_meanwhile_do_not_return() -> None:
    log = small_log()
    fill(log, rounds=30)
    task = task_for(log)
    done = answers(task, log.dir.files)
    log.delete_records(log.segments[2].base_offset + 1, NOW)
    start = log.segments.first_offset
    for answer in done:
        if answer.cleaned is not None:
            task.swap(answer.cleaned, NOW)
        else:
            assert answer.finished is not None
            task.finish(answer.finished)
    assert log.segments.first_offset == start
    assert log.first_dirty_offset == 0  # the segments left out are still dirty
    expected = table(log)
    compact(log)
    assert table(log) == expected


def test_sources_deleted_by_retention_are_not_damage() -> None:
    log = small_log()
    fill(log, rounds=30)
    task = task_for(log)
    log.delete_records(log.segments[2].base_offset + 1, NOW)
    (finished,) = [answer.finished for answer in answers(task, log.dir.files)]
    assert finished is not None
    assert finished.failure
    assert not finished.passing
    assert task.has_lost_sources
    assert not task_for(log).has_lost_sources


def test_a_skipped_swap_also_skips_later_ones() -> None:
    """A tombstone may go only after the values that it has deleted."""
    log = small_log()
    for key in (b"x", b"y", b"a"):
        put(log, (key, b"1"))
        log.roll(NOW)
    put(log, (b"a", None))
    put(log, (b"large", b"1" * 200))
    log.roll(NOW)
    for number in range(2):
        now_ms = NOW + number * CONFIG.delete_retention_ms
        task = task_for(log, now_ms=now_ms)
        done = [
            answer.cleaned for answer in answers(task, log.dir.files) if answer.cleaned is not None
        ]
        assert [len(segment.base_offsets) for segment in done] == [3 - number, 1]
        log.delete_records(number + 1, NOW)  # one segment of the first group is deleted
        for cleaned in done:
            task.swap(cleaned, now_ms)
    assert b"a" not in table(log)


def test_a_cleaning_of_a_closed_log_is_void() -> None:
    log = small_log()
    fill(log)
    task = task_for(log)
    assert not task.is_void
    log.close()
    assert task.is_void


def test_a_read_under_way_keeps_its_file() -> None:
    files = MemoryFiles()
    log = small_log(files)
    fill(log)
    piece = log.read(0, size_max=1 << 20, end_offset=log.end_offset)
    assert piece is not None
    before = piece.read()
    compact(log)
    assert piece.read() == before


def test_a_damaged_batch_stops_the_cleaning_before_anything_is_lost() -> None:
    files = MemoryFiles()
    log = small_log(files)
    fill(log)
    segment = log.segments[1]
    files.flip(segment.log_path, 70)
    before = [s.base_offset for s in log.segments]
    finished = compact(log)
    assert "wrong checksum" in finished.failure
    assert not finished.passing
    assert [s.base_offset for s in log.segments] == before


def test_a_full_disk_is_a_transient_error() -> None:
    files = MemoryFiles()
    log = small_log(files)
    fill(log)
    files.fill(100)
    finished = compact(log)
    assert finished.failure
    assert finished.passing
    files.heal()
    assert not compact(log).failure


def test_an_uncleanable_log_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    log = small_log()
    fill(log)
    cleaner = cleaner_for(log)
    with caplog.at_level(logging.ERROR):
        cleaner.mark_uncleanable(log, "wrong checksum")
        assert cleaner.next_task([log], LIMITS, NOW) is None
    assert caplog.text.count("as uncleanable") == 1


def test_fetches_in_a_gap_find_what_follows() -> None:
    log = small_log()
    fill(log, keys=3, rounds=30)
    compact(log)
    known = offsets(log)
    for offset in range(log.end_offset):
        piece = log.read(offset, size_max=1, end_offset=log.end_offset)
        assert piece is not None
        following = [record.offset for record in read_all(log, start=offset)]
        assert following == [known_offset for known_offset in known if known_offset >= offset]


def test_times_are_found_after_a_cleaning() -> None:
    log = small_log()
    for i in range(60):
        put(log, (b"k%d" % (i % 7), b"v"), timestamp=NOW + i)
    compact(log, now_ms=NOW + 100)
    left = read_all(log)
    for time in range(NOW, NOW + 60):
        found = log.offset_for_time(time, end_offset=log.end_offset)
        wanted = next(record.offset for record in left if record.timestamp >= time)
        assert found is not None
        assert found[0] == wanted
    newest = log.max_timestamp(end_offset=log.end_offset)
    assert newest is not None
    assert newest[:2] == (59, NOW + 59)


def test_the_largest_timestamp_is_found_behind_an_empty_header() -> None:
    log = small_log()
    put(log, (b"b", b"1"), timestamp=NOW + 5)
    put(log, (b"a", b"1"), timestamp=NOW + 9, producer_id=1, producer_epoch=0, base_sequence=0)
    put(log, (b"a", b"2"), timestamp=NOW + 1)
    log.roll(NOW)
    compact(log)
    found = log.max_timestamp(end_offset=log.end_offset)
    assert found is not None
    assert found[:2] == (0, NOW + 5)


def test_a_log_with_gaps_can_be_reopened(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    log = small_log(files)
    fill(log, rounds=30)
    compact(log)
    expected = offsets(log)
    end_offset = log.end_offset
    close(log)
    with caplog.at_level(logging.WARNING):
        for clean in (True, False):
            again = small_log(files, clean=clean)
            assert offsets(again) == expected
            assert again.end_offset == end_offset
    assert caplog.text == ""
