"""Batches requests to other brokers: one request to each broker at a time.

A broker serves the requests of a connection one after another, and count requests between brokers
wait for replicas. So everything that is queued while a request is under way goes with the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

from ottla.errors import ErrorCode, KafkaError

ITEMS_MAX: Final = 1_000  # in one request; the rest goes with the next

log = logging.getLogger("ottla.broker")

I = TypeVar("I")  # noqa: E741


class RequestBatcher(Generic[I]):
    """`send_request` sends items to a broker and completes each of them. If it raises, `fail_items`
    fails them all."""

    def __init__(
        self,
        send_request: Callable[[int, list[I]], Awaitable[None]],
        fail_items: Callable[[list[I], KafkaError], None],
        *,
        items_max: int = ITEMS_MAX,
    ) -> None:
        self._items_max = items_max
        self._send_request = send_request
        self._fail_items = fail_items
        self._waiting: dict[int, list[I]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def send(self, broker_id: int, item: I) -> None:
        self._waiting.setdefault(broker_id, []).append(item)
        if broker_id not in self._tasks:
            loop = asyncio.get_running_loop()
            self._tasks[broker_id] = loop.create_task(self._send_queued(broker_id))

    def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def _send_queued(self, broker_id: int) -> None:
        try:
            while self._waiting.get(broker_id):
                waiting = self._waiting[broker_id]
                count = self._items_max
                items, self._waiting[broker_id] = waiting[:count], waiting[count:]
                await self._send_batch(broker_id, items)
        finally:
            del self._tasks[broker_id]

    async def _send_batch(self, broker_id: int, items: list[I]) -> None:
        try:
            await self._send_request(broker_id, items)
        except KafkaError as error:
            self._fail_items(items, error)
        except Exception as error:  # or the items would wait forever
            log.exception("A request to broker %d failed", broker_id)
            self._fail_items(items, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)))
