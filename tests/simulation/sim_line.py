"""A line between two brokers of the simulation: what
`ottla.net.inter_broker_connection.InterBrokerConnection` is to real ones.

Requests and responses keep their order. A line breaks when either end dies, and it may break when
a cut ends.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from sim_loop import SimulatedProcess
from sim_network import Channel, Links

from ottla.errors import ErrorCode, KafkaError
from ottla.net.inter_broker_connection import BrokerUnreachable
from ottla.slices import FileSlice
from ottla.wire.messages.fetch import FetchResponse

Serve = Callable[[Any, int], Any]
"""(request, API key) -> the response, or an awaitable of it."""


class SimLine:
    def __init__(
        self, links: Links, near: SimulatedProcess, far: SimulatedProcess, serve: Serve
    ) -> None:
        self.closed = asyncio.Event()
        self._links = links
        self._near, self._far = near, far
        self._serve = serve
        self._there = Channel(links, near.name, far.name)
        self._back = Channel(links, far.name, near.name)
        self._answers: deque[asyncio.Future[Any]] = deque()
        self._waiting: deque[tuple[Any, int]] = deque()  # at the far end, in order
        self._busy = False
        far.on_death(lambda: self._back.send(self._reset))

    @classmethod
    async def open(
        cls,
        links: Links,
        near: SimulatedProcess,
        far: Callable[[], SimulatedProcess | None],
        name: str,
        timeout_s: float,
    ) -> SimLine:
        """Raises if no broker listens there, or the link is cut."""

        def answer(life: SimulatedProcess) -> SimulatedProcess:
            return life

        try:
            found = await links.call(near.name, name, far, answer, timeout_s)
        except Exception as error:
            raise BrokerUnreachable(str(error), refused=getattr(error, "refused", False)) from None
        return cls(links, near, found, found.serve)

    def send(
        self, request: Any, api_key: int, *, version: int | None = None
    ) -> asyncio.Future[Any]:
        if self.closed.is_set():
            raise self._lost()
        future = self._links.loop.create_future()
        self._answers.append(future)
        self._there.send(lambda: self._arrive(request, api_key))
        return future

    async def call(
        self,
        request: Any,
        api_key: int,
        response_type: type[Any],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        future = self.send(request, api_key)
        try:
            async with asyncio.timeout(timeout_s):
                body = await future
        except TimeoutError:
            self.close()
            raise self._lost() from None
        assert isinstance(body, response_type)
        return body

    def close(self) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        for future in self._answers:
            if not future.done():
                future.set_exception(self._lost())
        self._answers.clear()

    def _reset(self) -> None:
        if not self._near.dead:
            self._links.loop.call_soon(self.close, context=self._near.context)

    def _lost(self) -> KafkaError:
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the line to {self._far.name} is closed")

    # The far end

    def _arrive(self, request: Any, api_key: int) -> None:
        if not self._far.dead:
            self._waiting.append((request, api_key))
            self._links.loop.call_soon(self._next, context=self._far.context)

    def _next(self) -> None:
        if self._busy or not self._waiting or self.closed.is_set():
            return
        request, api_key = self._waiting.popleft()
        outcome = self._serve(request, api_key)
        if isinstance(outcome, asyncio.Future):
            self._busy = True
            outcome.add_done_callback(self._answered)
        else:
            self._reply(outcome)
            self._next()

    def _answered(self, outcome: asyncio.Future[Any]) -> None:
        self._busy = False
        self._reply(outcome.result())
        self._next()

    def _reply(self, response: Any) -> None:
        if isinstance(response, FetchResponse):
            read_records(response)
        self._back.send(lambda: self._land(response))

    def _land(self, response: Any) -> None:
        if self._near.dead or self.closed.is_set() or not self._answers:
            return
        future = self._answers.popleft()
        self._links.loop.call_soon(_settle, future, response, context=self._near.context)


def _settle(future: asyncio.Future[Any], response: Any) -> None:
    if not future.done():
        future.set_result(response)


def read_records(response: FetchResponse) -> None:
    """As net/ does when it sends: reads file slices into bytes."""
    for topic in response.responses:
        for data in topic.partitions:
            if isinstance(data.records, FileSlice):
                data.records = data.records.read()
