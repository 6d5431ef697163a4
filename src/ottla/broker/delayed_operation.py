"""A request that waits: for records, for replicas, or until its time is over.

Kafka keeps such requests in a purgatory. Here each one keeps itself: it registers with what may
complete it (see `ottla.replica.watchers`), and its future is all that the server knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ottla.net.delayed_response import DelayedResponse


class DelayedOperation:
    """HOT. A request whose response is `future`; `try_complete` gives it, or None to wait on.

    `look` and `look_soon` call `try_complete` with False. The last call, with True, comes when the
    time is over or the server needs the connection; it has to give a response.
    """

    __slots__ = ("_loop", "_on_end", "_scheduled", "_timer", "_try_complete", "future")

    def __init__(
        self,
        try_complete: Callable[[bool], Any],
        timeout_ms: int,
        *,
        on_end: Callable[[], None] | None = None,
        interruptible: bool = False,
    ) -> None:
        """`on_end` is called when it is completed, or cancelled because the client disconnected.

        With `interruptible` it is completed when the client's next request arrives.
        """
        self._try_complete = try_complete
        self._on_end = on_end
        self._scheduled = False
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = (
            DelayedResponse(self.complete_now, loop=self._loop)
            if interruptible
            else self._loop.create_future()
        )
        self._timer = self._loop.call_later(max(timeout_ms, 0) / 1000, self.complete_now)
        if on_end is not None:
            self.future.add_done_callback(self._end)

    def look_soon(self) -> None:
        """Call `look` once, after everything else that happens in this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self.look)

    def look(self) -> None:
        self._scheduled = False
        self._try(False)

    def complete_now(self) -> None:
        """Complete with the response as it is now."""
        self._try(True)

    def _try(self, last: bool) -> None:
        if not self.future.done():
            try:
                response = self._try_complete(last)
            except Exception as error:  # or the client would never get an answer
                self.future.set_exception(error)
            else:
                if response is None:
                    return
                self.future.set_result(response)
        self._release()

    def _release(self) -> None:
        """Drop the references to the request, which refers to this operation. The cycle would keep
        the response, and the files it refers to, until the garbage collector runs: rarely."""
        self._timer.cancel()
        self._try_complete = _completed
        if isinstance(self.future, DelayedResponse):
            self.future.complete_now = _nothing_to_complete

    def _end(self, future: asyncio.Future[Any]) -> None:
        self._release()
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()


def _completed(last: bool) -> None:
    """In place of `try_complete`, once the response is known."""


def _nothing_to_complete() -> None:
    """In place of `complete_now`, once the response is known."""
