"""State on the local disk: the copy, its mark, and hosts that are killed."""

from __future__ import annotations

import os
import random
import signal
import socket
import time
from multiprocessing.context import ForkServerContext
from pathlib import Path

import host_child
import pytest
from killed_hosts import exit_code, in_files

from ottla.engine.host_process import FinalAnswer, HostConnection
from ottla.engine.local_copy import UNUSED_S_MAX, LocalCopies, LocalCopy, delete_unused
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.segments import StoreSegments
from ottla.engine.state_folder import LocalFolder
from ottla.engine.task_files import TaskFiles
from ottla.engine.task_host import TaskHost
from ottla.engine.task_server import TaskServer
from ottla.engine.windowed_serdes import LONG
from ottla.spark.chunk_processor import pickled


@pytest.fixture
def copies(tmp_path: Path) -> LocalCopies:
    return LocalCopies(str(tmp_path / "local"))


def files_of(tmp_path: Path) -> TaskFiles:
    return TaskFiles(LocalFolder(tmp_path / "state" / "0"))


def again(copies: LocalCopies, tmp_path: Path) -> LocalCopy:
    copies.close()
    return LocalCopies(str(tmp_path / "local")).of("state", 0)


def test_cells_are_those_of_a_dict(copies: LocalCopies) -> None:
    draw, model = random.Random(3), dict[bytes, bytes]()
    copy = copies.of("state", 0)
    copy.fill(("a", b"noise", b"%d" % number) for number in range(3))
    copy.fill([("c", b"noise", b"x")])
    cells = copy.open("b")
    for number in range(3_000):
        key = b"%d" % draw.randrange(300)
        if draw.random() < 0.4:
            cells.put(key, None)
            model.pop(key, None)
        else:
            cells.put(key, b"%d" % number)
            model[key] = b"%d" % number
        if number % 97 == 0:
            copy.commit(f"{number:016x}")
        if number % 13 == 0:
            low, high = sorted(b"%d" % draw.randrange(300) for _ in range(2))
            wanted = [item for item in sorted(model.items()) if low <= item[0] < high]
            assert list(cells.range(low, high)) == wanted
            assert cells.get(key) == model.get(key)
    assert list(cells.range(None, None)) == sorted(model.items())
    copies.close()


def test_a_put_during_a_scan_hides_no_cell(copies: LocalCopies) -> None:
    copy = copies.of("state", 0)
    copy.fill(("s", b"%d" % number, b"old") for number in range(10))
    cells = copy.open("s")
    seen = []
    for key, _ in cells.range(None, None):
        cells.put(key, b"new")
        cells.put(b"9", b"new")
        seen.append(key)
    assert seen == [b"%d" % number for number in range(10)]
    copies.close()


def test_the_last_value_of_a_cell_counts_in_a_bulk_load(copies: LocalCopies) -> None:
    """Files follow one another, and a restore from topics mixes the stores."""
    draw, model, changes = random.Random(5), dict[tuple[str, bytes], bytes | None](), []
    for number in range(50_000):
        place = draw.choice("ab"), b"%d" % draw.randrange(9_000)
        value = None if draw.random() < 0.2 else b"%d" % number
        changes.append((*place, value))
        model[place] = value
    copy = copies.of("state", 0)
    copy.fill(changes)
    for store in "ab":
        found = {(store, key): value for key, value in copy.open(store).items()}
        assert found == {
            place: value
            for place, value in model.items()
            if place[0] == store and value is not None
        }
    copies.close()


def test_a_copy_resumes_at_its_mark_and_forgets_later_changes(
    copies: LocalCopies, tmp_path: Path
) -> None:
    copy = copies.of("state", 0)
    copy.open("s").put(b"k", b"1")
    copy.commit("a" * 16)
    copy.open("s").put(b"k", b"2")
    found = again(copies, tmp_path)
    assert (found.file_id, found.open("s").get(b"k")) == ("a" * 16, b"1")
    found.open("s").put(b"k", b"3")
    found.discard_pending()
    assert found.open("s").get(b"k") == b"1"
    found.close()


def test_a_partially_filled_copy_is_rebuilt(copies: LocalCopies, tmp_path: Path) -> None:
    copy = copies.of("state", 0)
    copy.open("s").put(b"k", b"1")
    copy.commit("a" * 16)
    copy.fill([("s", b"k", b"2")])
    found = again(copies, tmp_path)
    assert found.file_id is None
    found.close()


def test_a_copy_that_cannot_be_opened_is_rebuilt(copies: LocalCopies, tmp_path: Path) -> None:
    copies.of("state", 0).commit("a" * 16)
    copies.close()
    (manifest,) = tmp_path.glob("local/*/0/MANIFEST-*")
    manifest.write_bytes(b"garbage")
    found = LocalCopies(str(tmp_path / "local")).of("state", 0)
    assert found.file_id is None
    found.close()


def test_two_hosts_of_a_machine_have_a_copy_each(copies: LocalCopies, tmp_path: Path) -> None:
    other = LocalCopies(str(tmp_path / "local"))
    one, two = copies.of("state", 0), other.of("state", 0)
    one.open("s").put(b"k", b"1")
    one.commit("a" * 16)
    assert two.open("s").get(b"k") is None
    copies.close()
    third = LocalCopies(str(tmp_path / "local"))
    assert third.of("state", 0).file_id == "a" * 16, "the unlocked one"
    third.close()
    other.close()


def test_copies_unused_for_a_day_are_deleted(copies: LocalCopies, tmp_path: Path) -> None:
    used, local = copies.of("used", 0), tmp_path / "local"
    gone = LocalCopies(str(local))
    gone.of("gone", 0)
    gone.close()
    delete_unused(local)
    assert len(list(local.iterdir())) == 2
    delete_unused(local, time.time() + 2 * 86_400)
    assert len(list(local.iterdir())) == 1
    used.commit("a" * 16)
    copies.close()


def test_a_copy_in_use_for_more_than_a_day_survives_its_process(
    copies: LocalCopies, tmp_path: Path
) -> None:
    copy = copies.of("state", 0)
    (lock,) = tmp_path.glob("local/*/*.lock")
    os.utime(lock, (0, 0))  # it was opened long ago
    copy.commit("a" * 16)
    assert lock.stat().st_mtime > time.time() - UNUSED_S_MAX
    copies.close()


def test_a_host_with_another_plan_leaves_its_copy_to_the_next(tmp_path: Path) -> None:
    folder, line = str(tmp_path / "state"), HostConnection(socket.socket())
    server = TaskServer("digest", pickled(host_child.plan_on_disk(tmp_path / "local")))
    for batch in range(3):
        cell = pack_input_rows(host_child.rows_in("word"))
        said, _ = server.answer(("run", folder, batch, 0, [cell]), line)
        assert said == "done"
    assert isinstance(server.answer(("has", "another"), line), FinalAnswer)
    copies = LocalCopies(str(tmp_path / "local"))
    assert copies.of(folder, 0).file_id is not None
    copies.close()
    line.close()


def test_expired_windows_on_disk_are_removed_by_a_scan(copies: LocalCopies) -> None:
    cells = copies.of("state", 0).open("windows")
    segments = StoreSegments(cells, 60_000, from_end=LONG.size)
    for minute in range(10):
        time_ms = minute * 60_000
        if segments.admits(time_ms):
            cells.put(b"k" + LONG.pack(time_ms), b"v")
            segments.note(b"k" + LONG.pack(time_ms), time_ms, present=True)
    left = [LONG.unpack(key[1:])[0] // 60_000 for key, _ in cells.range(None, None)]
    assert left == [8, 9]
    copies.close()


def test_a_state_beyond_the_limit_moves_to_disk(tmp_path: Path) -> None:
    plan = host_child.plan_on_disk(tmp_path / "local")
    for batch in range(6):
        if batch % 3 == 0:  # stands for a new process
            host = TaskHost(plan)
        done = host_child.run_batch(host, str(tmp_path / "state"), batch)
        wanted = host_child.counts_behind(batch)
        assert done == {word: wanted[word] for word in host_child.words_of(batch)}
        if batch % 3 == 2:
            host.close()
    assert [file.last for file in host.files_read] == [2], "the copy had all but the last batch"
    assert in_files(files_of(tmp_path), 5) == host_child.counts_behind(5)
    assert list(tmp_path.glob("local/*/0/CURRENT"))


def test_a_repeated_batch_finds_the_copy_unchanged(tmp_path: Path) -> None:
    host = TaskHost(host_child.plan_on_disk(tmp_path / "local"))
    folder = str(tmp_path / "state")
    for batch in range(4):
        for _ in range(3):
            done = host_child.run_batch(host, folder, batch)
            wanted = host_child.counts_behind(batch)
            assert done == {word: wanted[word] for word in host_child.words_of(batch)}
            assert batch < 2 or host.files_read == [], "no file had to be read"
    host.close()


def test_a_copy_of_another_history_is_discarded(tmp_path: Path) -> None:
    """Another host has rerun a batch with another result."""
    one = TaskHost(host_child.plan_on_disk(tmp_path / "one"))
    other = TaskHost(host_child.plan_on_disk(tmp_path / "other"))
    folder = str(tmp_path / "state")
    for batch in range(4):
        host_child.run_batch(one, folder, batch)
    host_child.run_batch(other, folder, 3)
    for batch in range(4, 6):
        done = host_child.run_batch(other, folder, batch)
    done = host_child.run_batch(one, folder, 6)
    wanted = host_child.counts_behind(6)
    assert done == {word: wanted[word] for word in host_child.words_of(6)}
    assert one.files_read[0].first > 0, "its copy was at batch 2, which both have"
    one.close()
    other.close()


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        ("batch", 4),
        ("file", 1),
        ("file", 6),
        ("compaction", 3),
        ("rename", 5),
        ("tidy", 2),
        ("copy", 1),
        ("mark", 3),
    ],
)
def test_a_killed_host_leaves_the_state_in_its_files(
    tmp_path: Path, processes: ForkServerContext, point: str, nth: int
) -> None:
    """Then Spark reruns the batch in another process."""
    done, where = tmp_path / "done", (str(tmp_path / "state"), tmp_path / "local")
    assert exit_code(processes, *where, range(6), done, point, nth) == -signal.SIGKILL
    first = int(done.read_text()) + 1 if done.exists() else 0
    assert exit_code(processes, *where, range(first, 8), done, "nowhere") == 0
    assert in_files(files_of(tmp_path), 7) == host_child.counts_behind(7)


def test_a_host_killed_while_it_reads_its_files_rebuilds_its_copy(
    tmp_path: Path, processes: ForkServerContext
) -> None:
    done, state, copy = tmp_path / "done", str(tmp_path / "state"), tmp_path / "copy"
    assert exit_code(processes, state, tmp_path / "local", range(4), done, "nowhere") == 0
    assert exit_code(processes, state, copy, range(4, 6), done, "copy") == -signal.SIGKILL
    assert exit_code(processes, state, copy, range(4, 6), done, "nowhere") == 0
    assert in_files(files_of(tmp_path), 5) == host_child.counts_behind(5)
