"""The broker dies at each file operation of a cleaning: no key's last value is lost."""

from __future__ import annotations

import contextlib
import errno
from random import Random

import pytest
from cleaner_kit import answers, compact, put, small_log, table, task_for
from storage_kit import DIR, NOW, PATH, append, marker, read_all

from ottla.errors import KafkaError
from ottla.records.batch import AppendOrigin
from ottla.storage.log import Log
from ottla.testing.memory_files import MemoryFiles


class Death(BaseException):
    """Never caught, as the end of a process."""


class MortalFiles(MemoryFiles):
    """Dies at the operation `death`, counted from when it was set; reading counts as well."""

    def __init__(self) -> None:
        super().__init__()
        self.death: int | None = None
        self.count = 0

    def check(self, operation: str, path: str) -> None:
        self.count += 1
        if self.death is not None and self.count > self.death:
            raise Death
        super().check(operation, path)


def written() -> MortalFiles:
    """A log with every kind of record that is cleaned; its closed segments are on the disk."""
    files = MortalFiles()
    log = small_log(files)
    for number in range(6):
        put(log, *[(b"k%d" % key, b"v%d" % number) for key in range(number % 4 + 1)])
        put(log, (b"gone", None if number % 3 == 2 else b"v%d" % number))
        put(
            log, (b"k1", b"t%d" % number), producer_id=5, producer_epoch=0, base_sequence=number,
            transactional=True,
        )  # fmt: skip
        append(log, marker(5, commit=number % 2 == 0), origin=AppendOrigin.COORDINATOR)
    log.flush(NOW)
    compact(log)  # tombstones and markers have horizons now
    for number in range(8):
        put(log, *[(b"k%d" % (key + 2), b"w%d" % number) for key in range(number % 4 + 1)])
    log.roll(NOW)
    put(log, (b"active", b"1"))
    log.save()
    log.flush(NOW)
    for path in list(files.nodes):
        if path.endswith(".deleted"):
            files.remove(path)
    return files


WRITTEN = {path: bytes(node.data) for path, node in written().nodes.items()}


def prepared() -> tuple[MortalFiles, Log]:
    files = MortalFiles()
    files.make_dir(PATH)
    for path, data in WRITTEN.items():
        files.replace(path, data, sync=True)
    log = small_log(files)
    files.count = 0
    return files, log


def operations() -> int:
    files, log = prepared()
    compact(log, now_ms=NOW + 5000)
    return files.count


COUNT = operations()
EXPECTED = {
    b"active": b"1", b"k0": b"v5", b"k1": b"v5", b"k2": b"w7", b"k3": b"w7", b"k4": b"w7",
    b"k5": b"w7",
}  # fmt: skip


def check_after(files: MortalFiles) -> None:
    log = small_log(files, clean=False)
    found = [record.offset for record in read_all(log)]
    assert found == sorted(set(found))
    assert table(log, log.aborted(0, log.end_offset)) == EXPECTED
    assert not [
        name for name in files.nodes if name.endswith((".cleaned", ".swap")) and name[:5] == DIR
    ]
    # It continues: appends, another cleaning, another start.
    put(log, (b"later", b"1"))
    log.roll(NOW)
    compact(log, now_ms=NOW + 9000)
    assert table(log, log.aborted(0, log.end_offset)) == {**EXPECTED, b"later": b"1"}
    log.flush(NOW)
    again = small_log(files, clean=False)
    assert table(again, again.aborted(0, again.end_offset)) == {**EXPECTED, b"later": b"1"}


@pytest.mark.parametrize("kind", ["kill", "crash", "crash with chance"])
def test_a_crash_at_any_operation_loses_nothing(kind: str) -> None:
    assert COUNT > 50
    for death in range(COUNT + 1):
        files, log = prepared()
        files.death = death
        try:
            compact(log, now_ms=NOW + 5000)
        except Death:
            pass
        else:
            assert death == COUNT
        files.death = None
        if kind == "kill":
            files.kill()
        else:
            files.crash(Random(death) if kind == "crash with chance" else None)
        check_after(files)


def test_the_next_start_completes_an_interrupted_swap() -> None:
    """Every operation of the cleaning's last part, and then every one of the start after it."""
    for death in range(COUNT - 30, COUNT, 2):
        for second in range(0, 40, 3):
            files, log = prepared()
            files.death = death
            with pytest.raises(Death):
                compact(log, now_ms=NOW + 5000)
            files.count, files.death = 0, second
            with contextlib.suppress(Death):
                small_log(files, clean=False)
            files.death = None
            files.kill()
            check_after(files)


def test_swaps_left_by_kafka_are_completed() -> None:
    """Kafka's names at the worst moment: sources half deleted, the log renamed, its index not."""
    files, log = prepared()
    bases = [segment.path for segment in log.segments]
    compact(log, now_ms=NOW + 5000)
    first = log.segments[0].path
    assert first == bases[0]
    for suffix in (".index", ".timeindex", ".txnindex"):
        if files.exists(first + suffix):
            files.rename(first + suffix, first + suffix + ".swap")
    log = small_log(files, clean=False)
    assert table(log, log.aborted(0, log.end_offset)) == EXPECTED
    assert files.exists(first + ".index")
    assert not files.exists(first + ".index.swap")


def test_a_swap_whose_files_were_not_all_renamed_is_discarded() -> None:
    files, log = prepared()
    first = log.segments[0].path
    files.replace(first + ".log.swap", b"", sync=True)
    files.replace(first + ".index.cleaned", b"", sync=True)
    log = small_log(files)
    assert table(log, log.aborted(0, log.end_offset)) == EXPECTED
    assert [name for name in files.nodes if name.startswith(PATH) and ".swap" in name] == []


def test_a_discarded_swap_removes_no_index() -> None:
    """A start that dies while discarding: the next one must not complete the rest."""
    for death in range(30):
        files, log = prepared()
        aborted = log.aborted(0, log.end_offset)
        assert aborted
        task = task_for(log, now_ms=NOW + 5000)
        cleaned = answers(task, files)[0].cleaned
        assert cleaned is not None
        first = log.segments[0].path
        files.rename(first + ".log.cleaned", first + ".log.swap")  # and it dies
        files.count, files.death = 0, death
        with contextlib.suppress(Death):
            small_log(files, clean=False, recovery_point=log.segments.active.base_offset)
        files.death = None
        files.kill()
        log = small_log(files, clean=False, recovery_point=log.segments.active.base_offset)
        assert log.aborted(0, log.end_offset) == aborted
        assert table(log, aborted) == EXPECTED


@pytest.mark.parametrize("after", range(12))
def test_leftovers_of_an_earlier_cleaning_do_not_undo_a_later_swap(after: int) -> None:
    files = MemoryFiles()
    log = small_log(files)
    for number in range(4):
        put(log, (b"k%d" % number, b"v"))
        log.roll(NOW)
    left = task_for(log)
    assert answers(left, files)[0].cleaned is not None
    left.discard()  # its process was stopped, so its result is not swapped in
    log.delete_records(log.segments[1].base_offset, NOW)
    task = task_for(log)
    files.fail("rename", after=after)
    cleaned = answers(task, files)[0].cleaned
    assert cleaned is not None
    with pytest.raises(KafkaError):
        task.swap(cleaned, NOW)
    files.heal()
    again = small_log(files, clean=False)
    assert table(again) == {b"k%d" % number: b"v" for number in range(1, 4)}


@pytest.mark.parametrize("after", range(8))
def test_the_next_start_completes_a_swap_stopped_by_the_disk(after: int) -> None:
    """Even for lack of space, otherwise a transient error: the log lacks its segments."""
    files, log = prepared()
    task = task_for(log, now_ms=NOW + 5000)
    cleaned = answers(task, files)[0].cleaned
    assert cleaned is not None
    files.fail("rename", after=after, error=errno.ENOSPC)
    with pytest.raises(KafkaError):
        task.swap(cleaned, NOW)
    files.heal()
    assert log.dir.offline
    task.discard()
    again = small_log(files, clean=False)
    assert table(again, again.aborted(0, again.end_offset)) == EXPECTED


def test_a_swap_only_renames_files() -> None:
    """The loop's thread swaps, so it must not read or write a segment's bytes."""
    files, log = prepared()
    task = task_for(log, now_ms=NOW + 5000)
    done = answers(task, files)
    before = dict(files.calls)
    for answer in done:
        if answer.cleaned is not None:
            task.swap(answer.cleaned, NOW)
    for operation in ("pread", "pwrite", "sync", "open"):
        assert files.calls.get(operation, 0) == before.get(operation, 0)
