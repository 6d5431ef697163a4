"""The disk and the disk in memory give the same guarantees; the latter breaks them on demand."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random

import pytest

from ottla.storage.files import DiskFiles, Files, LockedError
from ottla.testing.memory_files import MemoryFiles


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "disk":
        return DiskFiles(), str(tmp_path)
    files = MemoryFiles()
    files.make_dir("/d")
    return files, "/d"


def test_bytes_are_read_where_they_were_written(place: tuple[Files, str]) -> None:
    files, path = place
    file = files.open(f"{path}/f", create=True)
    assert file.pwrite(b"hello", 0) == 5
    assert file.pwrite(memoryview(b"world"), 5) == 5
    assert file.pread(100, 3) == b"loworld"
    assert file.pread(10, 50) == b""
    assert file.size() == files.size(f"{path}/f") == 10
    file.truncate(4)
    file.sync()
    assert files.read(f"{path}/f") == b"hell"
    assert files.open(f"{path}/f", read_only=True).pread(2, 0) == b"he"


def test_a_file_that_is_created_again_is_empty(place: tuple[Files, str]) -> None:
    files, path = place
    files.open(f"{path}/f", create=True).pwrite(b"old", 0)
    assert files.open(f"{path}/f", create=True).size() == 0


def test_absent_files_raise_errors(place: tuple[Files, str]) -> None:
    files, path = place
    for act in (files.open, files.read, files.size, files.modified_ms, files.sync, files.entries):
        with pytest.raises(FileNotFoundError):
            act(f"{path}/nothing")
    with pytest.raises(FileNotFoundError):
        files.rename(f"{path}/nothing", f"{path}/other")
    with pytest.raises(FileNotFoundError):
        files.open(f"{path}/nothing/f", create=True)
    files.remove(f"{path}/nothing")
    files.remove_tree(f"{path}/nothing")


def test_an_open_file_outlives_its_name(place: tuple[Files, str]) -> None:
    files, path = place
    file = files.open(f"{path}/f", create=True)
    file.pwrite(b"hello", 0)
    files.rename(f"{path}/f", f"{path}/g")
    files.remove(f"{path}/g")
    assert not files.exists(f"{path}/g")
    assert file.pread(5, 0) == b"hello"


def test_directories(place: tuple[Files, str]) -> None:
    files, path = place
    files.make_dir(f"{path}/a/b")
    files.make_dir(f"{path}/a/b")
    files.open(f"{path}/a/f", create=True).pwrite(b"123", 0)
    files.open(f"{path}/a/b/g", create=True)
    assert sorted(files.entries(f"{path}/a")) == [("b", 0, True), ("f", 3, False)]
    files.sync(f"{path}/a")
    files.rename(f"{path}/a", f"{path}/z")
    assert files.exists(f"{path}/z/b/g")
    files.remove_tree(f"{path}/z")
    assert files.entries(path) == []


def test_replace_is_all_or_nothing(place: tuple[Files, str]) -> None:
    files, path = place
    files.replace(f"{path}/f", b"one", sync=True)
    files.replace(f"{path}/f", b"two", sync=False)
    assert files.read(f"{path}/f") == b"two"
    assert [entry.name for entry in files.entries(path)] == ["f"]


def test_a_lock_has_one_holder(place: tuple[Files, str]) -> None:
    files, path = place
    lock = files.lock(f"{path}/.lock")
    with pytest.raises(LockedError):
        files.lock(f"{path}/.lock")
    lock.release()
    files.lock(f"{path}/.lock").release()


def test_faults_start_and_end_on_request() -> None:
    files = MemoryFiles()
    files.make_dir("/d")
    file = files.open("/d/f", create=True)
    files.fail("pwrite", after=1, error=errno.EIO)
    file.pwrite(b"a", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            file.pwrite(b"b", 1)
    files.heal()
    file.pwrite(b"b", 1)
    files.short_write(size=2)
    assert file.pwrite(b"wxyz", 2) == 2
    assert files.read("/d/f") == b"abwx"
    files.fill(1)
    assert file.pwrite(b"cd", 0) == 2  # nothing new is needed
    assert file.pwrite(b"yz", 4) == 1
    with pytest.raises(OSError, match="No space"):
        file.pwrite(b"z", 5)


def test_a_failed_replace_leaves_the_old_file() -> None:
    files = MemoryFiles()
    files.make_dir("/d")
    files.replace("/d/f", b"old", sync=True)
    files.fill(2)
    with pytest.raises(OSError, match="No space"):
        files.replace("/d/f", b"new", sync=True)
    assert files.read("/d/f") == b"old"
    assert list(files.nodes) == ["/d/f"]


def test_a_crash_keeps_what_was_synced() -> None:
    for seed in range(50):
        files = MemoryFiles()
        files.make_dir("/d")
        file = files.open("/d/f", create=True)
        file.pwrite(b"synced", 0)
        file.sync()
        file.pwrite(b"not synced", 6)
        files.crash(Random(seed) if seed else None)
        left = files.read("/d/f")
        assert left.startswith(b"synced")
        assert seed or left == b"synced"
