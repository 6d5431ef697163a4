"""Messages between lives: late, in another order, lost, or not at all while a link is cut."""

from __future__ import annotations

import asyncio
import contextvars
import math
from collections import deque
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from sim_loop import SimLoop, SimulatedProcess

STORE = "store"
Action = Callable[[], None]


class Unreachable(Exception):
    """No response in time, or no listener."""

    def __init__(self, why: str, *, refused: bool = False) -> None:
        super().__init__(why)
        self.refused = refused


class Links:
    """The current cuts, each way separately, and all messages in flight."""

    def __init__(self, loop: SimLoop, chance: Random) -> None:
        self.loop = loop
        self.chance = chance
        self.latency_s = (0.0005, 0.004)
        self.lost_share = 0.01
        self._cut: set[tuple[str, str]] = set()
        self._slow: dict[tuple[str, str], float] = {}
        self._waiting: list[tuple[str, str, Action]] = []
        self._healed: list[Action] = []
        self._context = contextvars.copy_context()

    # Cuts

    def is_cut(self, source: str, target: str) -> bool:
        return (source, target) in self._cut

    def cut_one_way(self, source: str, target: str) -> None:
        self._cut.add((source, target))

    def cut(self, one: str, other: str) -> None:
        self._cut |= {(one, other), (other, one)}

    def slow(self, one: str, other: str, seconds: float) -> None:
        self._slow[one, other] = self._slow[other, one] = seconds

    def heal(self, one: str | None = None, other: str | None = None) -> None:
        """Waiting messages arrive now or never: connections may have been closed."""
        if one is None:
            self._cut.clear()
            self._slow.clear()
        else:
            for pair in ((one, other), (other, one)):
                self._cut.discard(pair)
                self._slow.pop(pair, None)
        waiting, self._waiting = self._waiting, []
        for source, target, arrive in waiting:
            if self.is_cut(source, target):
                self._waiting.append((source, target, arrive))
            elif self.chance.random() < 0.5:
                self.at(self.loop.time() + self.latency(source, target), arrive)
        for callback in self._healed:
            callback()

    def on_heal(self, callback: Action) -> None:
        self._healed.append(callback)

    # What belongs to nobody's life

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self.loop.create_task(work, context=self._context)

    def at(self, when_s: float, action: Callable[..., None], *given: Any) -> None:
        self.loop.call_at(when_s, action, *given, context=self._context)

    # Messages

    def latency(self, source: str, target: str) -> float:
        return self.chance.uniform(*self.latency_s) + self._slow.get((source, target), 0.0)

    def send(self, source: str, target: str, arrive: Action) -> None:
        """Calls `arrive` when the message arrives; messages may overtake each other."""
        if self.is_cut(source, target):
            self._waiting.append((source, target, arrive))
        elif self.chance.random() >= self.lost_share:
            when_s = self.loop.time() + self.latency(source, target)
            self.at(when_s, self._land, source, target, arrive)

    def _land(self, source: str, target: str, arrive: Action) -> None:
        if self.is_cut(source, target):  # while it was on its way
            self._waiting.append((source, target, arrive))
        else:
            arrive()

    async def call(
        self,
        source: str,
        target: str,
        find: Callable[[], SimulatedProcess | None],
        serve: Callable[[Any], Any],
        timeout_s: float,
    ) -> Any:
        """The result of `serve(life)`, which runs in the target's life at that time."""
        future: asyncio.Future[Any] = self.loop.create_future()

        def arrive() -> None:
            life = find()
            if life is None:  # the port refuses
                self.send(target, source, lambda: _refuse(future))
            else:
                self.loop.call_soon(handle, life, context=life.context)

        def handle(life: SimulatedProcess) -> None:
            outcome = serve(life)
            if isinstance(outcome, asyncio.Future):
                outcome.add_done_callback(lambda done: answer(done.result()), context=life.context)
            else:
                answer(outcome)

        def answer(outcome: Any) -> None:
            self.send(target, source, lambda: _settle(future, outcome))

        self.send(source, target, arrive)
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise Unreachable(f"{target} did not answer {source}") from None


def _settle(future: asyncio.Future[Any], outcome: Any) -> None:
    if not future.done():
        future.set_result(outcome)


def _refuse(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(Unreachable("refused", refused=True))


class Channel:
    """Messages from one to the other which keep their order, as those of a session do."""

    def __init__(self, links: Links, source: str, target: str) -> None:
        self._links = links
        self._way = source, target
        self._arrival_s = 0.0
        self._held: deque[tuple[Action, bool]] = deque()
        self._is_stuck = False
        links.on_heal(self._release)

    def send(self, arrive: Action, *, kept: bool = False) -> None:
        """`kept` messages arrive eventually; others may be lost with a connection."""
        when_s = self._links.loop.time() + self._links.latency(*self._way)
        # Of two timers of the very same time, either may be the first.
        self._arrival_s = max(math.nextafter(self._arrival_s, math.inf), when_s)
        self._links.at(self._arrival_s, self._land, arrive, kept)

    def _land(self, arrive: Action, kept: bool) -> None:
        if self._links.is_cut(*self._way):
            self._is_stuck = True
            self._held.append((arrive, kept))
        else:
            arrive()

    def _release(self) -> None:
        if not self._is_stuck or self._links.is_cut(*self._way):
            return
        self._is_stuck = False
        lost = self._links.chance.random() < 0.5  # a new connection takes the old one's place
        held, self._held = self._held, deque()
        for arrive, kept in held:
            if kept or not lost:
                arrive()
