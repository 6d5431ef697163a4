"""A value that is known now, or will be known later.

A request whose records wait for replicas, or that waits for other members of its group, gets its
response through a Promise: the handler returns `promise.result()`, and the part that finishes the
work resolves it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

log = logging.getLogger("ottla.broker")

R = TypeVar("R")
S = TypeVar("S")

OnError = Callable[[Exception], None]


class Promise(Generic[R]):
    """A value that another part will know, or knows already; the token of a coordinator's request.

    `resolve` calls the callbacks at once, in the order in which they were added, within the same
    turn of the loop. So a callback can act upon an answer that holds only at this moment.

    If a callback raises, the promise that `then` returned for it fails, and its waiters get the
    exception. Other callbacks are still called, and `resolve` itself does not raise.
    """

    __slots__ = ("_callbacks", "_error", "is_resolved", "value")

    if not TYPE_CHECKING:

        def __class_getitem__(cls, item: Any) -> type:
            """`Promise[int]()` costs ten times as much as `Promise()` by way of `typing`."""
            return cls

    def __init__(self) -> None:
        self.is_resolved = False
        self.value: R  # once it is resolved
        self._error: Exception | None = None  # once it has failed
        self._callbacks: list[tuple[Callable[[R], object], OnError]] = []

    def resolve(self, value: R) -> None:
        assert not self.is_resolved
        self.is_resolved = True
        self.value = value
        for callback, _ in self._callbacks:
            callback(value)

    def then(self, call: Callable[[R], S]) -> Promise[S]:
        """Call `call` with the value, now or when it is known; the promise of what it returns."""
        result: Promise[S] = Promise()
        if self.is_resolved:
            result.value = call(self.value)
            result.is_resolved = True
            return result

        def settle(value: R) -> None:
            try:
                outcome = call(value)
            except Exception as error:
                result._fail(error)
            else:
                result.resolve(outcome)

        self._when(settle, result._fail)
        return result

    def _when(self, call: Callable[[R], object], fail: OnError) -> None:
        """`call` must not raise."""
        if self.is_resolved:
            call(self.value)
        elif self._error is not None:
            fail(self._error)
        else:
            self._callbacks.append((call, fail))

    def _fail(self, error: Exception) -> None:
        """No value will come: the callback that should have returned it has raised."""
        if self._error is not None:
            return
        self._error = error
        if not self._callbacks:  # or the error would be lost if nobody calls `result`
            log.error("A callback failed", exc_info=error)
        for _, fail in self._callbacks:
            fail(error)

    def result(self) -> R | asyncio.Future[R]:
        """For the server: the value if it is known, else a future of it."""
        if self.is_resolved:
            return self.value
        if self._error is not None:
            raise self._error
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()

        def set_result(value: R) -> None:
            if not future.done():  # the client may have disconnected
                future.set_result(value)

        def set_exception(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self._when(set_result, set_exception)
        return future


def all_of(promises: Sequence[Promise[R]]) -> Promise[list[R]]:
    """All values, in the order of the promises; resolved when the last one is.

    If one of them fails, so does this.
    """
    gathered = Promise[list[R]]()
    values: dict[int, R] = {}
    count = len(promises)  # `take` must not refer to the promises, which refer to it

    def take(index: int, value: R) -> None:
        values[index] = value
        if len(values) == count:
            gathered.resolve([values[index] for index in range(count)])

    if not promises:
        gathered.resolve([])
    for index, promise in enumerate(promises):
        promise._when(partial(take, index), gathered._fail)
    return gathered


async def await_response(handled: asyncio.Future[Any]) -> Any:
    """The response of a handler that could not begin at once, and may have to wait after that.

    Defined here, and not in the handler that needs it: the server does not take the coroutine of a
    compiled function for one.
    """
    answer = await handled
    return await answer if inspect.isawaitable(answer) else answer
