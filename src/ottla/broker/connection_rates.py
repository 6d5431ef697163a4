"""Limits the rate of new connections: from one address (KIP-612), and of the whole broker."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Mapping
from typing import Final

from ottla.broker.quota_entities import CONNECTION_CREATION_RATE, IP
from ottla.broker.rates import Rate
from ottla.cluster.image import MetadataImage, QuotaEntity, StoredConfig
from ottla.config import ServerConfig

UNLIMITED: Final = 2**31 - 1
ADDRESSES_MAX: Final = 10_000  # whose rates are remembered

log = logging.getLogger("ottla.broker")


class ConnectionRates:
    """`admit` is called for every new connection. Waits last one window at most, as in Kafka."""

    def __init__(self, config: ServerConfig, *, addresses_max: int = ADDRESSES_MAX) -> None:
        self._addresses_max = addresses_max
        self._count = config.quota_window_num
        self._window_ms = config.quota_window_size_seconds * 1000
        self._stored: Mapping[QuotaEntity, StoredConfig] = {}
        self._limits: dict[str, float] = {}
        self._default: float | None = None
        self._rates: dict[str, Rate] = {}
        self._all = self._rate(UNLIMITED)
        self._lookups: set[asyncio.Task[None]] = set()

    def admit(self, host: str, now_ms: int) -> tuple[int, int]:
        """(ms after which this connection is closed, 0 to admit it; ms to accept no connection)."""
        if self._default is not None or self._limits:
            wait_ms = self._charge(host, now_ms)
            if wait_ms:
                return wait_ms, 0
        if self._all.limit == UNLIMITED:
            return 0, 0
        return 0, self._all.charge(1, now_ms)

    def apply(self, image: MetadataImage, config: ServerConfig) -> None:
        self._all.limit = config.max_connection_creation_rate
        if image.quotas is self._stored:
            return
        self._stored = image.quotas
        self._limits = {}
        self._default = None
        for entity, quota in image.quotas.items():
            kind, name = entity[0]
            text = quota.values.get(CONNECTION_CREATION_RATE)
            if kind != IP or text is None:
                continue
            if name is None:
                self._default = float(text)
            else:
                self._set(name, float(text))

    def _set(self, name: str, limit: float) -> None:
        try:
            self._limits[str(ipaddress.ip_address(name))] = limit
        except ValueError:  # a host name: looking it up could block
            lookup = asyncio.get_running_loop().create_task(self._look_up(name, limit))
            self._lookups.add(lookup)
            lookup.add_done_callback(self._lookups.discard)

    async def _look_up(self, name: str, limit: float) -> None:
        stored = self._stored
        try:
            found = await asyncio.get_running_loop().getaddrinfo(name, None)
        except (OSError, UnicodeError) as error:
            log.warning("Ignoring the connection quota of %s: %s", name, error)
            return
        if stored is self._stored:
            self._limits |= {str(address[4][0]): limit for address in found}

    def stop(self) -> None:
        for lookup in self._lookups:
            lookup.cancel()

    def _charge(self, host: str, now_ms: int) -> int:
        limit = self._limits.get(host, self._default)
        if limit is None:
            return 0
        rate = self._rates.get(host)
        if rate is None:
            if len(self._rates) >= self._addresses_max:
                self._forget(now_ms)
            rate = self._rates[host] = self._rate(limit)
        rate.limit = limit
        wait_ms = rate.charge(1, now_ms)
        if wait_ms:
            rate.record(-1, now_ms)  # a rejected connection does not count
        return wait_ms

    def _forget(self, now_ms: int) -> None:
        for host in [host for host, rate in self._rates.items() if rate.is_quiet(now_ms)]:
            del self._rates[host]
        while len(self._rates) >= self._addresses_max:
            del self._rates[next(iter(self._rates))]

    def _rate(self, limit: float) -> Rate:
        return Rate(
            limit,
            count=self._count,
            window_ms=self._window_ms,
            throttle_ms_max=self._window_ms,
        )
