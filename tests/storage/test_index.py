"""Offset and time index: bytes, lookups, lazy loading and saving."""

from __future__ import annotations

import errno

import pytest

from ottla.storage.index import IndexFile, OffsetIndex, TimeIndex
from ottla.testing.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_dir("/d")
    return files


def offset_index(files: MemoryFiles, base: int = 100) -> OffsetIndex:
    size = len(files.nodes["/d/i"].data) if "/d/i" in files.nodes else 0
    index = OffsetIndex(IndexFile(files, "/d/i", 8, size), base)
    if not size:
        index.file.create()
    return index


def time_index(files: MemoryFiles, base: int = 100) -> TimeIndex:
    size = len(files.nodes["/d/t"].data) if "/d/t" in files.nodes else 0
    index = TimeIndex(IndexFile(files, "/d/t", 12, size), base)
    if not size:
        index.file.create()
    return index


def test_offset_entries_are_relative_and_big_endian(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 4200)
    index.append(300, 9000)
    assert files.nodes["/d/i"].data == b""
    index.file.save()
    assert files.nodes["/d/i"].data.hex() == "0000000500001068000000c800002328"


def test_floor_finds_the_last_entry_at_or_below(files: MemoryFiles) -> None:
    index = offset_index(files)
    for offset, position in ((105, 10), (110, 20), (120, 30)):
        index.append(offset, position)
    assert [index.floor(offset) for offset in (100, 104, 105, 109, 110, 119, 120, 999)] == [
        0, 0, 10, 10, 20, 20, 30, 30
    ]  # fmt: skip
    assert [index.floor_position(position) for position in (5, 10, 29, 30, 99)] == [
        0,
        10,
        20,
        30,
        30,
    ]


def test_an_index_is_reopened_with_and_without_pending_entries(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    index.file.save()
    again = offset_index(files)
    assert again.last() == (105, 10)
    again.append(110, 20)
    assert not again.loaded
    assert again.entries() == [(105, 10), (110, 20)]
    assert again.last() == (110, 20)


def test_a_torn_last_entry_is_overwritten(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    index.file.save()
    files.nodes["/d/i"].data += b"\0\0\0"
    again = offset_index(files)
    again.append(106, 20)
    again.file.save()
    assert offset_index(files).entries() == [(105, 10), (106, 20)]
    assert len(files.nodes["/d/i"].data) == 16


def test_entries_refused_by_a_full_disk_stay_pending(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    files.fill(0)
    with pytest.raises(OSError, match="No space"):
        index.file.save()
    index.append(106, 20)
    assert index.entries() == [(105, 10), (106, 20)]
    files.heal()
    index.file.save()
    assert offset_index(files).entries() == [(105, 10), (106, 20)]


def test_many_pending_entries_are_written_without_a_flush(files: MemoryFiles) -> None:
    index = offset_index(files, base=0)
    for entry in range(20_000):
        index.append(entry, entry * 5000)
    assert len(files.nodes["/d/i"].data) >= 2 * 64 * 1024
    assert len(index.file.pending) < 64 * 1024
    index.unload()
    assert index.floor(19_999) == 19_999 * 5000


def test_truncate_drops_entries_in_the_file_and_pending(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    index.append(110, 20)
    index.file.save()
    index.append(120, 30)
    index.truncate(30)
    assert index.entries() == [(105, 10), (110, 20)]
    index.truncate(20)
    assert index.entries() == [(105, 10)]
    assert len(files.nodes["/d/i"].data) == 8


def test_a_removed_index_file_is_created_again(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    index.file.save()
    files.remove("/d/i")
    assert index.entries() == []
    index.append(106, 20)
    index.file.save()
    assert index.entries() == [(106, 20)]


def test_other_errors_of_the_disk_are_not_hidden(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    files.fail("open", error=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        index.file.save()


def test_time_entries_rise_strictly(files: MemoryFiles) -> None:
    index = time_index(files)
    index.append(1000, 105)
    index.append(1000, 110)
    index.append(999, 111)
    index.append(1001, 112)
    assert index.entries() == [(1000, 105), (1001, 112)]
    index.file.save()
    assert files.nodes["/d/t"].data.hex() == "00000000000003e80000000500000000000003e90000000c"


def test_time_floor(files: MemoryFiles) -> None:
    index = time_index(files)
    for timestamp, offset in ((1000, 105), (2000, 110), (3000, 120)):
        index.append(timestamp, offset)
    assert index.floor(999) is None
    assert [index.floor(time) for time in (1000, 1999, 2000, 9999)] == [
        (1000, 105),
        (1000, 105),
        (2000, 110),
        (3000, 120),
    ]


def test_time_last_is_read_without_loading(files: MemoryFiles) -> None:
    index = time_index(files)
    assert index.last() == (-1, 100)
    index.append(1000, 105)
    index.file.save()
    again = time_index(files)
    assert again.last() == (1000, 105)
    assert again.resident_size() == 0


def test_time_truncate(files: MemoryFiles) -> None:
    index = time_index(files)
    for timestamp, offset in ((1000, 105), (2000, 110), (3000, 120)):
        index.append(timestamp, offset)
    index.truncate(110)
    assert index.entries() == [(1000, 105)]
    assert index.last() == (1000, 105)


def test_positions_beyond_an_entry_are_not_indexed(files: MemoryFiles) -> None:
    index = offset_index(files)
    index.append(105, 10)
    largest = 100 + (1 << 31) - 1
    for offset, position in ((99, 20), (largest + 1, 20), (1 << 62, 20), (106, 1 << 31)):
        index.append(offset, position)
    index.append(largest, (1 << 31) - 1)
    assert index.entries() == [(105, 10), (largest, (1 << 31) - 1)]
    times = time_index(files)
    times.append(1, 105)
    times.append(2, largest + 1)
    times.append(3, largest)
    assert times.entries() == [(1, 105), (3, largest)]
