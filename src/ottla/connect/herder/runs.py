"""What runs on this worker: for each connector one thread, which works towards what is wished.

A wish is what is written down of the connector: its config, and whether it is to run. The newest
one counts; those that came while a query was being stopped are passed over. Where the connector
stands is written to the status topic, by whoever runs it only.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.connect.run.states import State, Status, Target

CLOSE_S_MAX: Final = 60.0

log = logging.getLogger("ottla.connect")


@dataclass(frozen=True, slots=True)
class Wish:
    config: Mapping[str, str]
    offset: int
    target: Target
    generation: int

    def same(self, other: Wish | None) -> bool:
        """Another generation of the workers alone changes nothing."""
        return other is not None and (self.offset, self.target) == (other.offset, other.target)


class Running(Protocol):
    """As run.runner.Running: only `stop` waits."""

    @property
    def status(self) -> Status: ...

    @property
    def task_configs(self) -> list[dict[str, str]]: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def restart(self, *, include_tasks: bool = False, only_failed: bool = False) -> None: ...

    def restart_task(self, task: int) -> None: ...

    def stop(self) -> None: ...


class Start(Protocol):
    """run.runner.start, with the worker and Spark given already."""

    def __call__(
        self,
        name: str,
        config: Mapping[str, str],
        *,
        generation: int,
        target: Target,
        on_state: Callable[[Status], None],
    ) -> Running: ...


class Writes(Protocol):
    """What a run writes down."""

    def stands(self, status: Status) -> None: ...

    def has_tasks(self, name: str, tasks: Sequence[Mapping[str, str]]) -> None: ...

    def ended(self, name: str, generation: int) -> None:
        """It was taken from this worker, or deleted."""


class Runs:
    """`ended` is called when a connector that is not wished here any more has stopped."""

    def __init__(self, start: Start, writes: Writes, ended: Callable[[], None]) -> None:
        self._start = start
        self._writes = writes
        self._ended = ended
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}

    def names(self) -> Collection[str]:
        """Those that run, and those that are being stopped."""
        with self._lock:
            return list(self._runs)

    def wish(self, wishes: Mapping[str, Wish]) -> None:
        """This, and nothing else, is to run here."""
        with self._lock:
            for name, run in self._runs.items():
                if name not in wishes:
                    run.wish(None)
            for name, wish in wishes.items():
                (self._runs.get(name) or self._new(name)).wish(wish)

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        run = self._runs.get(name)
        if run is not None:
            run.restart(include_tasks, only_failed)

    def restart_task(self, name: str, task: int) -> None:
        """KeyError: there is no such task."""
        self._runs[name].restart_task(task)

    def close(self) -> None:
        with self._lock:
            runs = list(self._runs.values())
        for each in runs:
            each.wish(None)
        for each in runs:
            each.thread.join(CLOSE_S_MAX)

    def _new(self, name: str) -> _Run:
        run = self._runs[name] = _Run(name, self._start, self._writes, self._gone)
        run.thread.start()
        return run

    def _gone(self, run: _Run) -> bool:
        """Is it still not wished? Then it is forgotten, and its thread may end."""
        with self._lock:
            if run.wished is not None:
                return False
            del self._runs[run.name]
        self._ended()
        return True


class _Run:
    def __init__(
        self, name: str, start: Start, writes: Writes, gone: Callable[[_Run], bool]
    ) -> None:
        self.name = name
        self.wished: Wish | None = None
        self._start_it = start
        self._writes = writes
        self._gone = gone
        self._changed = threading.Condition()
        self._new = False
        self._done: Wish | None = None
        self._running: Running | None = None
        self.thread = threading.Thread(target=self._work, name=f"connector-{name}", daemon=True)

    def wish(self, wish: Wish | None) -> None:
        with self._changed:
            same = wish is self.wished or (wish is not None and wish.same(self.wished))
            self.wished = wish
            if not same:
                self._new = True
                self._changed.notify_all()

    def restart(self, include_tasks: bool, only_failed: bool) -> None:
        """One that could not even be started is started."""
        running = self._running
        if running is not None:
            running.restart(include_tasks=include_tasks, only_failed=only_failed)
            return
        with self._changed:
            self._done, self._new = None, True
            self._changed.notify_all()

    def restart_task(self, task: int) -> None:
        if self._running is None:
            raise KeyError(task)
        self._running.restart_task(task)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._new)
                self._new, wish = False, self.wished
            try:
                self._fulfil(wish)
            except Exception as error:
                self._failed(wish, error)
            if wish is None and self._gone(self):
                return

    def _fulfil(self, wish: Wish | None) -> None:
        before, self._done = self._done, wish
        if wish is None:
            self._stop()
            self._writes.ended(self.name, before.generation if before else 0)
        elif wish.target is Target.STOPPED:
            self._stop()
            self._writes.stands(Status(self.name, State.STOPPED, generation=wish.generation))
        elif before is not None and before.offset == wish.offset and self._running is not None:
            if wish.target is Target.PAUSED:
                self._running.pause()
            elif before.target is not Target.STARTED:
                self._running.resume()
        else:
            self._stop()
            self._start(wish)

    def _start(self, wish: Wish) -> None:
        def told(status: Status) -> None:
            done = self._done
            if done is None or done.offset != wish.offset or done.target is Target.STOPPED:
                return  # what an older run has still to say is old
            if self._running is not None and self._running.task_configs:
                self._writes.has_tasks(self.name, self._running.task_configs)
            self._writes.stands(status)

        self._running = self._start_it(
            self.name,
            wish.config,
            generation=wish.generation,
            target=wish.target,
            on_state=told,
        )
        if self._running.task_configs:
            self._writes.has_tasks(self.name, self._running.task_configs)

    def _stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.stop()

    def _failed(self, wish: Wish | None, error: Exception) -> None:
        log.error("connector %s: %s", self.name, error, exc_info=True)
        if wish is not None:
            trace = "".join(traceback.format_exception(error))
            status = Status(self.name, State.FAILED, trace, generation=wish.generation)
            self._writes.stands(status)
