"""Two hosts hold one task: Spark has given up an attempt, and its host goes on.

A seeded simulation: attempts stop at every call of the state folder, and go on in a random order.
The folder is in memory; hosts, files and tasks are the real ones.
"""

from __future__ import annotations

import random
import threading
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final, cast

import host_child
import pytest
from killed_hosts import in_files

from ottla.engine import task_host
from ottla.engine.state_folder import FolderEntry, StateFolder, Write
from ottla.engine.task_files import TaskFiles, delete_obsolete_files
from ottla.engine.task_host import TaskHost

BATCHES: Final = 25
LATE_MAX: Final = 3
GIVEN_UP: Final = 0.08
"""The probability, at a step, that Spark gives up the attempt."""
RESTARTED: Final = 0.3
"""The probability that it was the driver that died."""


class Attempt(threading.Thread):
    """A run of a batch by a host, in a thread that waits for `step` at each call of the folder."""

    def __init__(self, host: TaskHost, batch: int) -> None:
        super().__init__(daemon=True)
        self.host = host
        self.batch = batch
        self.counts: dict[str, int] = {}
        self.error: Exception | None = None
        self.done = False
        self._go, self._halted = threading.Semaphore(0), threading.Semaphore(0)
        self.start()

    def run(self) -> None:
        self._go.acquire()
        try:
            self.counts = host_child.run_batch(self.host, "state", self.batch)
        except Exception as error:
            self.error = error
        self.done = True
        self._halted.release()

    def pause(self) -> None:
        self._halted.release()
        self._go.acquire()

    def step(self) -> None:
        self._go.release()
        self._halted.acquire()


class SharedFolder:
    """A state folder in memory."""

    def __init__(self) -> None:
        self._data: dict[str, tuple[bytes, int]] = {}
        self._clock = 0

    def files(self) -> list[FolderEntry]:
        _pause()
        return [FolderEntry(name, len(data), at) for name, (data, at) in self._data.items()]

    def open(self, name: str) -> IO[bytes]:
        _pause()
        if name not in self._data:
            raise FileNotFoundError(name)
        return BytesIO(self._data[name][0])

    def put(self, name: str, write: Write) -> FolderEntry:
        draft = BytesIO()
        write(draft)
        _pause()
        self._clock += 1
        self._data[name] = draft.getvalue(), self._clock
        return FolderEntry(name, draft.tell(), self._clock)

    def delete(self, name: str) -> None:
        _pause()
        self._data.pop(name, None)

    def names(self) -> list[str]:
        return list(self._data)


class ParentFolder:
    """The parent of one folder."""

    def __init__(self, child: Any) -> None:
        self._child = child

    def names(self) -> list[str]:
        return ["0"]

    def child(self, _: str) -> Any:
        return self._child


def _pause() -> None:
    attempt = threading.current_thread()
    if isinstance(attempt, Attempt):
        attempt.pause()


@pytest.mark.parametrize("on_disk", [False, True], ids=["in memory", "on disk"])
@pytest.mark.parametrize("seed", range(8))
def test_late_hosts_lose_and_double_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, on_disk: bool
) -> None:
    draw, shared = random.Random(seed), SharedFolder()
    monkeypatch.setattr(task_host, "state_folder", lambda _: shared)
    monkeypatch.setattr(host_child, "WORDS", 300)
    monkeypatch.setattr(host_child, "FIRST_WORDS", 400)

    def new_host() -> TaskHost:
        return TaskHost(host_child.plan_on_disk(tmp_path) if on_disk else host_child.counted())

    hosts = [new_host(), new_host()]
    late: list[Attempt] = []

    def begin(batch: int) -> Attempt:
        """A host runs one attempt at a time."""
        busy = [attempt.host for attempt in late]
        free = [host for host in hosts if host not in busy]
        if not free:
            free = [new_host()]
            hosts.extend(free)
        return Attempt(draw.choice(free), batch)

    current = begin(0)
    while current.batch < BATCHES:
        draw.choice([current, current, *late]).step()
        late = [attempt for attempt in late if not attempt.done]
        if current.done:
            assert current.error is None, f"batch {current.batch}"
            wanted = host_child.counts_behind(current.batch)
            assert current.counts == {
                word: wanted[word] for word in host_child.words_of(current.batch)
            }, f"batch {current.batch}"
            current = begin(current.batch + 1)
        elif len(late) < LATE_MAX and draw.random() < GIVEN_UP:
            late.append(current)
            if draw.random() < RESTARTED:
                query = cast(StateFolder, ParentFolder(ParentFolder(shared)))
                delete_obsolete_files(query, "0", current.batch - 1)
            current = begin(current.batch)
    for attempt in late:
        while not attempt.done:
            attempt.step()
    files = TaskFiles(cast(StateFolder, shared))
    assert in_files(files, BATCHES - 1) == host_child.counts_behind(BATCHES - 1)
    assert len(shared.files()) < 20
    for host in hosts:
        host.close()
