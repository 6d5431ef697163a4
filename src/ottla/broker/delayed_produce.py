"""Produce with acks=all: the response waits until the in-sync replicas have the batches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ottla.broker.delayed_operation import DelayedOperation
from ottla.errors import ErrorCode
from ottla.replica.partition import Partition
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse

Finish = Callable[[ProduceResponse], ProduceResponse]


class ProducePartitionStatus(NamedTuple):
    """A batch that is appended here, and its response if it is committed in time."""

    partition: Partition
    end_offset: int
    answer: PartitionProduceResponse


class DelayedProduce:
    """One produce request that waits for its partitions."""

    __slots__ = ("_finish", "_operation", "_response", "_waiting")

    def __init__(self, response: ProduceResponse, finish: Finish) -> None:
        """`finish` completes the response once the result of every partition is known."""
        self._response = response
        self._finish = finish
        self._waiting: dict[int, PartitionProduceResponse] = {}
        self._operation: DelayedOperation | None = None

    def wait(
        self, statuses: list[ProducePartitionStatus], timeout_ms: int
    ) -> ProduceResponse | asyncio.Future[ProduceResponse]:
        """The response if every partition is decided already, else a future of it."""
        self._waiting = {number: status.answer for number, status in enumerate(statuses)}
        for number, status in enumerate(statuses):
            decided = partial(self._decided, number)
            status.partition.on_committed(status.end_offset, decided, needs_min_isr=True)
        if not self._waiting:
            return self._finish(self._response)
        self._operation = DelayedOperation(self._try_complete, timeout_ms)
        return self._operation.future

    def _decided(self, number: int, code: ErrorCode) -> None:
        answer = self._waiting.pop(number, None)
        if answer is None:
            return  # after the deadline
        if code is not ErrorCode.NONE:
            answer.error_code = code
        if not self._waiting and self._operation is not None:
            self._operation.look()

    def _try_complete(self, last: bool) -> ProduceResponse | None:
        if self._waiting and not last:
            return None
        for answer in self._waiting.values():
            answer.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        return self._finish(self._response)
