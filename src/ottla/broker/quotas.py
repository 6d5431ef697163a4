"""The quotas of this broker's clients: which limits a client has, and how much of them it has used.

    Quotas    finds the limits of a client, by Kafka's order of precedence
    Limits    of one client: produced bytes, fetched bytes, request time, controller mutations

Requests are charged in `quota_charges.py`. With no quota set, a request costs nothing extra.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar

from ottla.broker.quota_entities import (
    CLIENT_ID,
    CLIENT_QUOTAS,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
)
from ottla.broker.rates import THROTTLE_MS_MAX, Rate, TokenBucket
from ottla.clock import Clock
from ottla.cluster.image import MetadataImage, QuotaEntity, StoredConfig
from ottla.config import ServerConfig

# How many clients and rates are remembered at most, because client ids can be anything.
CLIENTS_MAX: Final = 10_000

# Only this many characters of a client id count. Kafka allows 32,767, and each id is remembered.
CLIENT_ID_SIZE_MAX: Final = 255

Meter = TypeVar("Meter", Rate, TokenBucket)


class ClientLimits:
    """The limits of one client; None is unlimited. Several clients may share a meter."""

    __slots__ = ("fetch", "mutations", "produce", "request")

    def __init__(
        self,
        produce: Rate | None,
        fetch: Rate | None,
        request: Rate | None,
        mutations: TokenBucket | None,
    ) -> None:
        self.produce = produce
        self.fetch = fetch
        self.request = request
        self.mutations = mutations


class ClientQuotas:
    """The limits of all clients of this broker. `active` is True if there are any."""

    def __init__(
        self, config: ServerConfig, clock: Clock, *, clients_max: int = CLIENTS_MAX
    ) -> None:
        self.active = False
        self._config = config
        self._clock = clock
        self._clients_max = clients_max
        self._stored: Mapping[QuotaEntity, StoredConfig] = {}
        self._tables: dict[str, dict[QuotaEntity, float]] = {}
        self._limits: dict[tuple[str, str], ClientLimits | None] = {}
        self._rates: dict[tuple[str, str | None, str | None], Rate] = {}
        self._buckets: dict[tuple[str, str | None, str | None], TokenBucket] = {}

    def apply(self, image: MetadataImage) -> None:
        """Take over the quotas that are set now; what clients have used so far remains counted."""
        if image.quotas is self._stored:
            return
        self._stored = image.quotas
        self._tables = {key: {} for key in CLIENT_QUOTAS}
        for entity, config in image.quotas.items():
            for key, value in config.values.items():
                if key in self._tables:
                    self._tables[key][entity] = float(value)
        self._limits.clear()
        self.active = any(self._tables.values())

    def limits(self, user: str, client_id: str) -> ClientLimits | None:
        if len(client_id) > CLIENT_ID_SIZE_MAX:
            client_id = client_id[:CLIENT_ID_SIZE_MAX]
        try:
            return self._limits[user, client_id]
        except KeyError:
            pass
        if len(self._limits) >= self._clients_max:
            self._forget()
        found = self._limits[user, client_id] = self._find(user, client_id)
        return found

    # Which limits a client has

    def _find(self, user: str, client_id: str) -> ClientLimits | None:
        config = self._config
        window_ms = config.quota_window_size_seconds * 1000
        rates = {"count": config.quota_window_num, "window_ms": window_ms}

        def rate(key: str, throttle_ms_max: int = THROTTLE_MS_MAX) -> Rate | None:
            limit, entity = self._limit(key, user, client_id)
            if limit is None:
                return None
            rate = self._rates.get(entity)
            if rate is None:
                rate = Rate(limit, throttle_ms_max=throttle_ms_max, **rates)
                self._rates[entity] = rate
            rate.limit = limit
            return rate

        limits = ClientLimits(
            rate(PRODUCER_BYTE_RATE),
            rate(CONSUMER_BYTE_RATE),
            rate(REQUEST_PERCENTAGE, window_ms),
            self._bucket(user, client_id),
        )
        return limits if any(getattr(limits, name) for name in ClientLimits.__slots__) else None

    def _bucket(self, user: str, client_id: str) -> TokenBucket | None:
        limit, entity = self._limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return None
        bucket = self._buckets.get(entity)
        if bucket is None:
            bucket = self._buckets[entity] = TokenBucket(
                limit,
                count=self._config.controller_quota_window_num,
                window_ms=self._config.controller_quota_window_size_seconds * 1000,
            )
        bucket.limit = limit
        return bucket

    def _limit(
        self, key: str, user: str, client_id: str
    ) -> tuple[float | None, tuple[str, str | None, str | None]]:
        table = self._tables.get(key)
        if table:
            for entity, shared_user, shared_client in _precedence(user, client_id):
                limit = table.get(entity)
                if limit is not None:
                    return limit, (key, shared_user, shared_client)
        return None, (key, None, None)

    def _forget(self) -> None:
        """Drop idle clients. Active ones are looked up again, with what they have used so far."""
        now_ms = self._clock.now_ms()
        self._limits.clear()
        _drop_quiet(self._rates, now_ms, self._clients_max)
        _drop_quiet(self._buckets, now_ms, self._clients_max)


def _precedence(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, str | None, str | None]]:
    """The entities in Kafka's order, of which the first with a limit counts, and who shares it.

    All clients of a user share a limit for that user (or for the default user); all users share a
    limit for a client id.
    """
    client, any_client = (CLIENT_ID, client_id), (CLIENT_ID, None)
    this_user, any_user = (USER, user), (USER, None)
    yield (client, this_user), user, client_id
    yield (any_client, this_user), user, client_id
    yield (this_user,), user, None
    yield (client, any_user), user, client_id
    yield (any_client, any_user), user, client_id
    yield (any_user,), user, None
    yield (client,), None, client_id
    yield (any_client,), None, client_id


def _drop_quiet(
    meters: dict[tuple[str, str | None, str | None], Meter], now_ms: int, count_max: int
) -> None:
    for entity in [entity for entity, meter in meters.items() if meter.is_quiet(now_ms)]:
        del meters[entity]
    while len(meters) > count_max:  # more than there can be: drop the oldest
        del meters[next(iter(meters))]
