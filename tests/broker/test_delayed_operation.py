"""A request that waits: when it is completed, and what is left of it afterwards."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from ottla.broker.delayed_operation import DelayedOperation
from ottla.net.delayed_response import DelayedResponse

LONG_MS = 60_000


class WaitingRequest:
    """A request as handlers have them: it refers to its operation, which refers to it."""

    def __init__(
        self, *, timeout_ms: int = LONG_MS, watches: bool = True, interruptible: bool = False
    ) -> None:
        self.answer: str | None = None
        self.error: Exception | None = None
        self.ended = 0
        self.looks: list[bool] = []  # True: it was the last one
        self.operation = DelayedOperation(
            self.try_complete,
            timeout_ms,
            on_end=self.end if watches else None,
            interruptible=interruptible,
        )

    def try_complete(self, last: bool) -> str | None:
        self.looks.append(last)
        if self.error is not None:
            raise self.error
        return "late" if last else self.answer

    def end(self) -> None:
        self.ended += 1


def test_it_is_completed_when_there_is_a_response() -> None:
    async def play() -> None:
        waiting = WaitingRequest()
        waiting.operation.look()
        assert not waiting.operation.future.done()
        waiting.answer = "here"
        waiting.operation.look()
        assert await waiting.operation.future == "here"
        await asyncio.sleep(0)
        assert (waiting.looks, waiting.ended) == ([False, False], 1)

    asyncio.run(play())


def test_when_the_time_is_over_it_is_completed_with_what_there_is() -> None:
    async def play() -> None:
        waiting = WaitingRequest(timeout_ms=1)
        assert await waiting.operation.future == "late"
        await asyncio.sleep(0)
        assert (waiting.looks, waiting.ended) == ([True], 1)

    asyncio.run(play())


def test_several_changes_in_one_turn_are_looked_at_once() -> None:
    async def play() -> None:
        waiting = WaitingRequest()
        waiting.operation.look_soon()
        waiting.operation.look_soon()
        await asyncio.sleep(0)
        assert waiting.looks == [False]
        waiting.operation.look_soon()
        await asyncio.sleep(0)
        assert waiting.looks == [False, False]

    asyncio.run(play())


def test_what_goes_wrong_is_the_response() -> None:
    async def play() -> None:
        waiting = WaitingRequest()
        waiting.error = ValueError("broken")
        waiting.operation.look()
        with pytest.raises(ValueError, match="broken"):
            await waiting.operation.future
        await asyncio.sleep(0)
        assert waiting.ended == 1

    asyncio.run(play())


def test_nothing_is_looked_at_after_the_client_has_disconnected() -> None:
    async def play() -> None:
        waiting = WaitingRequest(interruptible=True)
        operation, future = waiting.operation, waiting.operation.future
        assert isinstance(future, DelayedResponse)
        operation.look_soon()
        future.cancel()
        await asyncio.sleep(0)
        operation.look()
        operation.complete_now()
        future.complete_now()
        assert (waiting.looks, waiting.ended) == ([], 1)

    asyncio.run(play())


async def complete(operation: DelayedOperation) -> None:
    operation.complete_now()
    await operation.future


async def cancel(operation: DelayedOperation) -> None:
    operation.future.cancel()


async def cancel_and_decide(operation: DelayedOperation) -> None:
    """The replicas have it after the client has disconnected."""
    operation.future.cancel()
    operation.look()


async def outlast(operation: DelayedOperation) -> None:
    await operation.future


@pytest.mark.parametrize(
    ("end", "options"),
    [
        (complete, {"interruptible": True}),
        (cancel, {"interruptible": True}),
        (outlast, {"interruptible": True, "timeout_ms": 1}),
        (complete, {}),
        (cancel, {}),
        (outlast, {"timeout_ms": 1}),
        (complete, {"watches": False}),
        (cancel_and_decide, {"watches": False}),
        (outlast, {"watches": False, "timeout_ms": 1}),
    ],
)
def test_nothing_of_it_is_left_to_the_garbage_collector(
    end: Callable[[DelayedOperation], Awaitable[None]], options: dict[str, Any]
) -> None:
    """A follower's fetch is interruptible; a consumer's watches partitions; a produce does not."""

    async def play() -> weakref.ref[WaitingRequest]:
        waiting = WaitingRequest(**options)
        await end(waiting.operation)
        await asyncio.sleep(0)
        return weakref.ref(waiting)

    with no_garbage_collector():
        assert asyncio.run(play())() is None


@contextmanager
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
