"""The other brokers of the cluster, and how to ask them something.

A broker serves the requests of one connection one after the other, so each kind of request has a
line of its own to each broker: a marker that waits for replicas holds up no other question.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.cluster.image import Image
from ottla.config import Listener
from ottla.errors import ErrorCode, KafkaError
from ottla.net.line import Line, Unreachable
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

CONNECT_S_MAX: Final = 5.0
COMPLAINT_S: Final = 10.0  # between two about the same broker

log = logging.getLogger("ottla.broker")

R = TypeVar("R", bound=Message)


class Neighbours:
    """Lines to other brokers: opened when first needed, and anew when they broke."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lines: dict[tuple[int, int], Line] = {}  # by broker and kind of request
        self._epochs: dict[tuple[int, int], int | None] = {}  # the life that the line leads to
        self._opening: dict[tuple[int, int], asyncio.Task[Line]] = {}
        self._complained_at: dict[int, float] = {}

    async def call(
        self,
        broker_id: int,
        request: Message,
        api_key: int,
        response_type: type[R],
        *,
        version: int | None = None,
        timeout_s: float,
    ) -> R:
        """Its answer. BROKER_NOT_AVAILABLE where it can't be reached, NETWORK_EXCEPTION where
        the line broke before it answered: it may have done what was asked all the same."""
        line = await self._line(broker_id, api_key, timeout_s)
        return await line.call(
            request, api_key, response_type, version=version, timeout_s=timeout_s
        )

    async def open(self, broker_id: int, *, timeout_s: float = CONNECT_S_MAX) -> Line:
        """A line for the caller alone, who closes it."""
        where = self.address(broker_id)
        client_id = f"ottla-broker-{self._broker.node_id}"
        try:
            return await Line.open(
                where.host,
                where.port,
                client_id=client_id,
                timeout_s=timeout_s,
                security=self._broker.line_security(),
            )
        except KafkaError as error:
            self._complain(broker_id, error)
            raise

    def _complain(self, broker_id: int, error: Exception) -> None:
        """A broker that does not let us in is a mistake of an operator, who has to hear of it."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, Unreachable) and not error.untrusted:
            return
        if now >= self._complained_at.get(broker_id, -COMPLAINT_S) + COMPLAINT_S:
            self._complained_at[broker_id] = now
            log.warning("Failed authentication with broker %d: %s", broker_id, error)

    def address(self, broker_id: int) -> Listener:
        """Where brokers find this one; Unreachable if it is not there."""
        found = self._broker.image.brokers.get(broker_id)
        name = self._broker.config.inter_broker_listener_name
        where = found.listener(name) if found is not None else None
        if where is None:
            raise Unreachable(f"broker {broker_id} is not registered", refused=False)
        return where

    def apply(self, image: Image) -> None:
        """Hang up on brokers that are gone, or live another life: they answer nothing any more.

        One that only stands still, and lost its session by that, would keep everybody waiting who
        could ask its successor.
        """
        for (broker_id, api_key), line in list(self._lines.items()):
            found = image.brokers.get(broker_id)
            epoch = None if found is None else found.epoch
            if epoch != self._epochs[broker_id, api_key]:
                del self._lines[broker_id, api_key]
                line.close()

    def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        for line in self._lines.values():
            line.close()
        self._lines.clear()

    async def _line(self, broker_id: int, api_key: int, timeout_s: float) -> Line:
        """The one that stands to where the broker is now, or a new one; who comes meanwhile
        waits for the same."""
        key = (broker_id, api_key)
        where = self.address(broker_id)
        line = self._lines.get(key)
        if line is not None and not line.closed.is_set():
            if line.address == f"{where.host}:{where.port}":
                return line
            line.close()  # it has moved
        opening = self._opening.get(key)
        if opening is None:
            limit_s = min(timeout_s, CONNECT_S_MAX)
            opening = asyncio.create_task(self.open(broker_id, timeout_s=limit_s))
            self._opening[key] = opening
            opening.add_done_callback(lambda task: self._opened(key, task))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            if opening.cancelled():  # closed: not the caller was
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "this broker stops") from None
            raise

    def _opened(self, key: tuple[int, int], task: asyncio.Task[Line]) -> None:
        self._opening.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            found = self._broker.image.brokers.get(key[0])
            self._lines[key] = task.result()
            self._epochs[key] = None if found is None else found.epoch
