"""The state files of a task."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from ottla.engine.cells import LoggedCells
from ottla.engine.failures import StreamsError
from ottla.engine.state_file import CellChange, StateFile
from ottla.engine.state_folder import LocalFolder
from ottla.engine.task_files import TaskFiles, delete_obsolete_files

Stores = dict[str, LoggedCells]


def loaded(files: TaskFiles, batch: int) -> tuple[list[StateFile], Stores]:
    """The state before a batch."""
    found = files.before(batch)
    cells: Stores = {}
    for store, key, value in files.read(found):
        cells.setdefault(store, LoggedCells()).put(key, value)
    for cell in cells.values():
        cell.changed.clear()
    return found, cells


def rows_of(cells: Stores) -> dict[str, dict[bytes, bytes]]:
    found = {name: dict(store.range(None, None)) for name, store in cells.items()}
    return {name: content for name, content in found.items() if content}


def changes_of(cells: Stores) -> list[CellChange]:
    return [change for name, some in cells.items() for change in some.changes(name)]


def test_cells_report_only_the_last_value_of_each_change() -> None:
    cells = LoggedCells()
    cells.put(b"a", b"1")
    cells.put(b"a", b"2")
    cells.put(b"b", b"1")
    cells.put(b"b", None)
    assert sorted(cells.changes("s")) == [("s", b"a", b"2"), ("s", b"b", None)]
    assert cells.changes("s") == []


def test_written_state_is_read_again_even_after_reruns(tmp_path: Path) -> None:
    draw = random.Random(7)
    files, state, cells = TaskFiles(LocalFolder(tmp_path)), [], {}
    before: dict[str, dict[bytes, bytes]] = {}
    batch = 0
    while batch < 400:
        for _ in range(draw.randrange(1, 60)):
            name = draw.choice(["one", "two"])
            key = b"%d" % draw.randrange(200)
            value = None if draw.random() < 0.3 else b"%d" % batch
            cells.setdefault(name, LoggedCells()).put(key, value)
        state = files.write(batch, changes_of(cells), state, cells)
        if draw.random() < 0.1:  # it is run again
            state, cells = loaded(files, batch)
            assert rows_of(cells) == before
            continue
        before = rows_of(cells)
        if draw.random() < 0.1:  # the task moves to another process
            found, cells = loaded(files, batch + 1)
            assert found == state
            assert rows_of(cells) == before
        batch += draw.choice([1, 1, 1, 5])
    assert rows_of(loaded(files, batch)[1]) == before
    assert len(list(tmp_path.iterdir())) < 20


def test_files_are_few_and_rarely_written(tmp_path: Path) -> None:
    """A large state, of which each batch changes a little."""
    files, state, cells = TaskFiles(LocalFolder(tmp_path)), [], {"s": LoggedCells()}
    for number in range(10_000):
        cells["s"].put(b"%d" % number, b"v" * 20)
    state = files.write(0, changes_of(cells), state, cells)
    large = state[0]
    written = 0
    for batch in range(1, 300):
        cells["s"].put(b"%d" % (batch * 7), b"w" * 20)
        state = files.write(batch, changes_of(cells), state, cells)
        written += state[-1].size
        assert len(state) < 12
    assert state[0] == large, "the large file was not rewritten"
    assert written < 299 * 4096
    assert rows_of(loaded(files, 300)[1]) == rows_of(cells)


def test_a_cell_created_and_deleted_leaves_nothing(tmp_path: Path) -> None:
    """As windows do."""
    files, state, cells = TaskFiles(LocalFolder(tmp_path)), [], {"s": LoggedCells()}
    for batch in range(200):
        for number in range(100):
            cells["s"].put(b"%d-%d" % (batch, number), b"v")
            cells["s"].put(b"%d-%d" % (batch - 2, number), None)
        state = files.write(batch, changes_of(cells), state, cells)
    assert rows_of(loaded(files, 200)[1]) == rows_of(cells)
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 100_000


def test_an_abandoned_draft_is_not_state(tmp_path: Path) -> None:
    (tmp_path / f"0-3-{'a' * 16}-{'0' * 16}.new-1f").write_bytes(b"half")
    files = TaskFiles(LocalFolder(tmp_path))
    assert files.before(9) == []
    cells = {"s": LoggedCells()}
    cells["s"].put(b"k", b"v")
    files.write(3, changes_of(cells), [], cells)
    assert [file.last for file in files.before(4)] == [3]


def test_a_cell_that_was_restored_and_deleted_in_one_batch_stays_deleted(tmp_path: Path) -> None:
    files, cells = TaskFiles(LocalFolder(tmp_path)), {"s": LoggedCells()}
    cells["s"].put(b"kept", b"v")
    restored = [("s", b"gone", b"v"), ("s", b"kept", b"u")]
    files.write(0, [*restored, ("s", b"gone", None), ("s", b"kept", b"v")], [], cells)
    assert rows_of(loaded(files, 1)[1]) == {"s": {b"kept": b"v"}}


def test_files_of_other_queries_and_of_uncommitted_batches_are_deleted(
    tmp_path: Path,
) -> None:
    ids = f"-{'a' * 16}-{'b' * 16}"
    for name in (
        f"old/0/0-9{ids}",
        f"new/0/0-3{ids}",
        f"new/0/4-5{ids}",
        f"new/0/4-6{ids}",
        f"new/1/0-5{ids}.new-1",
        f"new/2/0-7{ids}",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    delete_obsolete_files(LocalFolder(tmp_path), "new", 5)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*-*")}
    assert left == {f"new/{name}{ids}" for name in ("0/0-3", "0/4-5", "2/0-7")}
    with pytest.raises(StreamsError, match=r"includes batch 7, and batch 6 is to run\. Another"):
        TaskFiles(LocalFolder(tmp_path / "new/2")).before(6)
    delete_obsolete_files(LocalFolder(tmp_path), "", -1)
    assert list(tmp_path.iterdir()) == []
    delete_obsolete_files(LocalFolder(tmp_path / "nowhere"), "new", 5)


def test_a_file_that_disappears_during_the_listing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be mistaken for a task without state."""
    files, cells = TaskFiles(LocalFolder(tmp_path)), {"s": LoggedCells()}
    for number in range(1000):
        cells["s"].put(b"%d" % number, b"v" * 20)
    state = files.write(0, changes_of(cells), [], cells)
    cells["s"].put(b"0", b"w")
    files.write(1, changes_of(cells), state, cells)
    found = sorted(os.listdir(tmp_path))
    assert [name[:4] for name in found] == ["0-0-", "1-1-"]
    (tmp_path / found[0]).unlink()
    monkeypatch.setattr(os, "listdir", lambda _: found)
    with pytest.raises(StreamsError, match="no file has batch 0"):
        files.before(2)


def test_files_of_an_earlier_version_are_refused_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "0-3").touch()
    with pytest.raises(
        StreamsError,
        match=r"0-3 was written by an earlier version\. Delete the application's state",
    ):
        TaskFiles(LocalFolder(tmp_path)).before(4)


def test_large_files_are_merged_as_a_stream_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.engine.task_files.UNORDERED_BYTES_MAX", 0)
    draw = random.Random(11)
    files, state, cells = TaskFiles(LocalFolder(tmp_path)), [], {"s": LoggedCells()}
    for number in range(3_000):
        cells["s"].put(b"%d" % number, b"first" * 5)
    for batch in range(60):
        state = files.write(batch, changes_of(cells), state, cells)
        for _ in range(100):
            value = None if draw.random() < 0.3 else b"%d" % batch
            cells["s"].put(b"%d" % draw.randrange(4_000), value)
    before = dict(cells["s"].range(None, None))
    state = files.write(60, changes_of(cells), state, cells)
    assert any(file.first > 0 for file in state)
    assert rows_of(loaded(files, 61)[1]) == {"s": before}


def test_a_task_at_an_earlier_file_reads_only_newer_ones(tmp_path: Path) -> None:
    draw = random.Random(5)
    files, state, cells = TaskFiles(LocalFolder(tmp_path)), [], {"s": LoggedCells()}
    for number in range(20_000):
        cells["s"].put(b"%d" % number, b"v" * 20)
    copies: list[tuple[str, dict[bytes, bytes]]] = []
    for batch in range(80):
        state = files.write(batch, changes_of(cells), state, cells)
        copies.append((state[-1].id, dict(cells["s"].range(None, None))))
        for _ in range(20):
            value = None if draw.random() < 0.3 else b"%d" % batch
            cells["s"].put(b"%d" % draw.randrange(20_000), value)
    for behind, copy in copies:
        newer = files.newer(behind, state)
        assert newer is not None
        assert state[0] not in newer, "the large file"
        for _, key, value in files.read(newer):
            copy.pop(key, None)
            if value is not None:
                copy[key] = value
        assert copy == copies[-1][1]
    assert files.newer("f" * 16, state) is None, "of another history"
