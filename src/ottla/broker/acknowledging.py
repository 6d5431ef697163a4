"""acks=all: a produce is answered when the replicas in sync have all of it, or when that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.errors import ErrorCode
from ottla.replica.partition import Partition
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

Finish = Callable[[ProduceResponse], ProduceResponse]


class Awaited(NamedTuple):
    """A batch that is written here, and the answer for it if all goes well."""

    partition: Partition
    end_offset: int
    answer: PartitionProduceResponse


class Acknowledging:
    """One produce request that waits for its partitions."""

    __slots__ = ("_finish", "_future", "_left", "_response", "_timer")

    def __init__(self, response: ProduceResponse, finish: Finish) -> None:
        """`finish` has the last word on the response, once all is known."""
        self._response = response
        self._finish = finish
        self._left: dict[int, PartitionProduceResponse] = {}
        self._future: asyncio.Future[ProduceResponse] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def wait(
        self, awaited: list[Awaited], timeout_ms: int
    ) -> ProduceResponse | asyncio.Future[ProduceResponse]:
        """The response, if everything is decided already."""
        self._left = {number: each.answer for number, each in enumerate(awaited)}
        for number, each in enumerate(awaited):
            tell = partial(self._told, number)
            each.partition.on_committed(each.end_offset, tell, needs_min_isr=True)
        if not self._left:
            return self._finish(self._response)
        loop = asyncio.get_running_loop()
        self._future = loop.create_future()
        self._timer = loop.call_later(max(timeout_ms, 0) / 1000, self._late)
        return self._future

    def _told(self, number: int, code: ErrorCode) -> None:
        answer = self._left.pop(number, None)
        if answer is None:
            return  # too late
        if code is not ErrorCode.NONE:
            answer.error_code = code
        if not self._left:
            self._end()

    def _late(self) -> None:
        for answer in self._left.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._left.clear()
        self._end()

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._future is not None and not self._future.done():
            self._future.set_result(self._finish(self._response))
