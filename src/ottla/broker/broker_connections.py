"""Connections to the other brokers of the cluster.

A broker serves the requests of one connection one after another. So each API has its own
connection to each broker: a transaction marker that waits for replicas holds up no other request.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, TypeVar

from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.config import Listener, ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.net.connection_security import ConnectionSecurity
from ottla.net.inter_broker_connection import BrokerUnreachable, InterBrokerConnection
from ottla.wire.fields import Message

CONNECT_S_MAX: Final = 5.0
WARNING_INTERVAL_S: Final = 10.0  # between two warnings about the same broker

log = logging.getLogger("ottla.broker")

R = TypeVar("R", bound=Message)


class BrokerConnections:
    """Opens connections when they are first needed, and again after they broke."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        *,
        config: Callable[[], ServerConfig],
        security: Callable[[], ConnectionSecurity | None],
    ) -> None:
        """`security` gives TLS and SASL for new connections, as configured now."""
        self._client_id = f"ottla-broker-{node_id}"
        self._metadata = metadata
        self._config = config
        self._security = security
        self._lines: dict[tuple[int, int], InterBrokerConnection] = {}  # by broker and API key
        self._epochs: dict[tuple[int, int], int | None] = {}  # the broker epoch at the other end
        self._opening: dict[tuple[int, int], asyncio.Task[InterBrokerConnection]] = {}
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
        """The broker's response. BROKER_NOT_AVAILABLE if it cannot be reached, NETWORK_EXCEPTION if
        the connection broke before the response: the request may have been carried out."""
        line = await self._line(broker_id, api_key, timeout_s)
        return await line.call(
            request, api_key, response_type, version=version, timeout_s=timeout_s
        )

    async def open(
        self, broker_id: int, *, timeout_s: float = CONNECT_S_MAX
    ) -> InterBrokerConnection:
        """A connection for the caller alone, which has to close it."""
        where = self.address(broker_id)
        try:
            return await InterBrokerConnection.open(
                where.host,
                where.port,
                client_id=self._client_id,
                timeout_s=timeout_s,
                security=self._security(),
            )
        except KafkaError as error:
            self._complain(broker_id, error)
            raise

    def _complain(self, broker_id: int, error: Exception) -> None:
        """Warn of a failed authentication: it is a mistake in some broker's configuration."""
        now = asyncio.get_running_loop().time()
        if isinstance(error, BrokerUnreachable) and not error.untrusted:
            return
        if now >= self._complained_at.get(broker_id, -WARNING_INTERVAL_S) + WARNING_INTERVAL_S:
            self._complained_at[broker_id] = now
            log.warning("Failed authentication with broker %d: %s", broker_id, error)

    def address(self, broker_id: int) -> Listener:
        """The broker's inter-broker listener; BrokerUnreachable if it is not registered."""
        found = self._metadata.image.brokers.get(broker_id)
        name = self._config().inter_broker_listener_name
        where = found.listener(name) if found is not None else None
        if where is None:
            raise BrokerUnreachable(f"broker {broker_id} is not registered", refused=False)
        return where

    def apply(self, image: MetadataImage) -> None:
        """Close connections to brokers that are gone or have registered again: no response comes.

        A broker that only hangs, and lost its session because of that, would otherwise keep callers
        waiting that could ask its successor.
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

    async def _line(self, broker_id: int, api_key: int, timeout_s: float) -> InterBrokerConnection:
        """The open connection to the broker's current address, or a new one. Calls that come while
        it is being opened wait for the same one."""
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
            if opening.cancelled():  # by `close`; the caller was not cancelled
                raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "this broker is stopping") from None
            raise

    def _opened(self, key: tuple[int, int], task: asyncio.Task[InterBrokerConnection]) -> None:
        self._opening.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            found = self._metadata.image.brokers.get(key[0])
            self._lines[key] = task.result()
            self._epochs[key] = None if found is None else found.epoch
