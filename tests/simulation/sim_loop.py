"""An event loop in which time passes only when no callback is ready.

Everything that is written with asyncio runs here as it is, but a second of waiting costs nothing,
and the same seed gives the same order of events, each time.

Callbacks belong to a `Life` (a simulated process) by their context. A life can be paused: its
callbacks wait. It can be killed: they are never run again, and no `finally` is, as after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import traceback
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

START_S = 1_700_000_000.0
ENDS_MAX = 5
LAST_WORD_S = 0.03


class SimulatedProcess:
    """A simulated process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.paused = False
        self.parked: deque[asyncio.Handle] = deque()
        self._mourners: list[Callable[[], None]] = []
        self.context = contextvars.copy_context()
        self.context.run(LIFE.set, self)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        self._loop = loop
        loop.lives.append(self)

    def __repr__(self) -> str:
        return f"Life({self.name})"

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self._loop.create_task(work, context=self.context)
        task.add_done_callback(self._loop.ended)
        return task

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self._loop.ready.extend(self.parked)
        self.parked.clear()

    def on_death(self, callback: Callable[[], None]) -> None:
        self._mourners.append(callback)

    def kill(self) -> None:
        self.dead = True
        self.parked.clear()
        for callback in self._mourners:
            callback()


LIFE: contextvars.ContextVar[SimulatedProcess | None] = contextvars.ContextVar("life", default=None)


class Ready(deque[asyncio.Handle]):
    """The loop's queue; returns an empty handle for a callback of a paused or dead life."""

    def __init__(self, nothing: asyncio.Handle) -> None:
        super().__init__()
        self._nothing = nothing

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        life = handle._context.get(LIFE)  # type: ignore[attr-defined]
        if life is not None and (life.dead or life.paused):
            if not life.dead:
                life.parked.append(handle)
            return self._nothing
        return handle


class NoSelector:
    """A selector without sockets, because no other process connects."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("everybody waits for somebody else")
        if timeout > 0:
            self._loop.now_s += timeout
        return []


class SimLoop(asyncio.BaseEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = START_S
        self._selector = NoSelector(self)
        self._clock_resolution = 1e-6  # what is due within it is due now
        nothing = asyncio.Handle(lambda: None, (), self)
        nothing.cancel()
        self.ready = self._ready = Ready(nothing)
        self.errors: list[str] = []
        self.lives: list[SimulatedProcess] = []
        self._tasks: list[asyncio.Task[Any]] = []  # tasks of dead lives, too
        self.set_task_factory(self._make_task)
        self.set_exception_handler(self._note)

    def time(self) -> float:
        return self.now_s

    def now_ms(self) -> int:
        """The current time, as of a Clock."""
        return round(self.now_s * 1000)

    def _make_task(
        self, loop: Any, work: Any, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, context=context)
        self._tasks.append(task)
        return task

    def end(self) -> None:
        """Cancels all tasks, also those of dead lives."""
        for life in self.lives:
            life.dead = life.paused = False
        self.set_exception_handler(lambda loop, context: None)
        for _ in range(ENDS_MAX):  # some need time for their cleanup
            pending = [task for task in self._tasks if not task.done()]
            if not pending:
                break
            for task in pending:
                task.cancel()
            with contextlib.suppress(RuntimeError):
                self.run_until_complete(asyncio.wait(pending, timeout=LAST_WORD_S))
        self.close()

    def ended(self, task: asyncio.Task[Any]) -> None:
        """A done callback for background tasks: records a failure."""
        if not task.cancelled() and (error := task.exception()) is not None:
            where = traceback.extract_tb(error.__traceback__)[-1]
            self.errors.append(f"{error!r} in {where.filename}:{where.lineno}")

    def _process_events(self, event_list: list[Any]) -> None:
        pass

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """The failure of a background task."""
        error = context.get("exception")
        self.errors.append(f"{context['message']}: {error!r}")


@contextlib.contextmanager
def sim_loop() -> Iterator[SimLoop]:
    loop = SimLoop()
    try:
        yield loop
    finally:
        loop.end()


def simulate(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs a coroutine to its end in simulated time."""
    with sim_loop() as loop:
        result = loop.run_until_complete(work)
        assert not loop.errors, loop.errors[:3]
        return result
