"""Client quotas at work: who may use how much, who used too much, and for how long they are muted.

    serve     each request of a client that has limits: bytes that it produced, time that it took
    Limits    what handlers ask themselves: bytes to be fetched, partitions to be made or deleted

A response that is throttled says so (throttle_time_ms) and is sent at once; then nothing more is
read from its connection for that time (KIP-219). With no quota set, a request costs nothing extra.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator, Mapping
from types import CoroutineType
from typing import Any, Final, TypeVar

from ottla.broker.context import Context, Handler
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
from ottla.cluster.image import Config, Image, QuotaEntity
from ottla.config import ServerConfig
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request

PRODUCE: Final = int(ApiKey.PRODUCE)
# What brokers ask of each other is never throttled for the time it takes.
EXEMPT: Final = frozenset({int(ApiKey.WRITE_TXN_MARKERS)})

# Clients whose limits are remembered, and how many rates at most; client ids can be anything.
CLIENTS_MAX: Final = 10_000

# Of a client id so many characters count. Kafka's may have 32,767, and each is remembered.
CLIENT_ID_SIZE_MAX: Final = 255

Meter = TypeVar("Meter", Rate, TokenBucket)


class Limits:
    """What one client may do; None is without limit. Clients may share their meters."""

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


class Quotas:
    """The limits of all clients of this broker. `active` says whether there are any."""

    def __init__(self, config: ServerConfig, clock: Clock) -> None:
        self.active = False
        self._config = config
        self._clock = clock
        self._stored: Mapping[QuotaEntity, Config] = {}
        self._tables: dict[str, dict[QuotaEntity, float]] = {}
        self._limits: dict[tuple[str, str], Limits | None] = {}
        self._rates: dict[tuple[str, str | None, str | None], Rate] = {}
        self._buckets: dict[tuple[str, str | None, str | None], TokenBucket] = {}

    def apply(self, image: Image) -> None:
        """Take over what is set now; what clients have used so far stays counted."""
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

    def limits(self, user: str, client_id: str) -> Limits | None:
        if len(client_id) > CLIENT_ID_SIZE_MAX:
            client_id = client_id[:CLIENT_ID_SIZE_MAX]
        try:
            return self._limits[user, client_id]
        except KeyError:
            pass
        if len(self._limits) >= CLIENTS_MAX:
            self._forget()
        found = self._limits[user, client_id] = self._find(user, client_id)
        return found

    # serving requests of clients that have limits

    def serve(self, handle: Handler, ctx: Context, request: Request) -> Any:
        """HOT while a quota is set. What the handler answers, measured and charged."""
        limits = self.limits(ctx.session.user, ctx.client_id or "")
        if limits is None:
            return handle(ctx, request.body)
        ctx.limits = limits
        started_ns = time.perf_counter_ns()
        answer = handle(ctx, request.body)
        spent_ns = time.perf_counter_ns() - started_ns
        if isinstance(answer, asyncio.Future):
            return self._charged_later(answer, ctx, request, limits, spent_ns)
        if isinstance(answer, CoroutineType):
            return self._charged_task(answer, ctx, request, limits, spent_ns)
        self._charge(ctx, request, limits, answer, spent_ns)
        return answer

    def _charged_later(
        self,
        answer: asyncio.Future[Any],
        ctx: Context,
        request: Request,
        limits: Limits,
        spent_ns: int,
    ) -> asyncio.Future[Any]:
        """A future as well, as only those are given up when a client leaves while it waits."""
        charged: asyncio.Future[Any] = answer.get_loop().create_future()

        def finish(done: asyncio.Future[Any]) -> None:
            if charged.done():
                return
            if done.cancelled():
                charged.cancel()
            elif (error := done.exception()) is not None:
                charged.set_exception(error)
            else:
                self._charge(ctx, request, limits, done.result(), spent_ns)
                charged.set_result(done.result())

        def give_up(done: asyncio.Future[Any]) -> None:
            if done.cancelled():
                answer.cancel()

        answer.add_done_callback(finish)
        charged.add_done_callback(give_up)
        return charged

    async def _charged_task(
        self,
        answer: CoroutineType[Any, Any, Any],
        ctx: Context,
        request: Request,
        limits: Limits,
        spent_ns: int,
    ) -> Any:
        timed = Timed(answer)
        response = await timed
        self._charge(ctx, request, limits, response, spent_ns + timed.spent_ns)
        return response

    def _charge(
        self, ctx: Context, request: Request, limits: Limits, response: Any, spent_ns: int
    ) -> None:
        """Kafka mutes for the longest of all that a request has earned, not for their sum."""
        now_ms = self._clock.now_ms()
        throttle_ms = getattr(response, "throttle_time", 0)
        if request.api_key == PRODUCE and limits.produce is not None:
            throttle_ms = max(throttle_ms, limits.produce.charge(request.size, now_ms))
        if limits.request is not None and request.api_key not in EXEMPT and response is not None:
            percent = spent_ns / 1e7  # a thread that is busy for one second in a second is at 100
            throttle_ms = max(throttle_ms, limits.request.charge(percent, now_ms))
        if throttle_ms > 0:
            if hasattr(response, "throttle_time"):
                response.throttle_time = throttle_ms
            ctx.session.mute(throttle_ms)

    # who has which limits

    def _find(self, user: str, client_id: str) -> Limits | None:
        config = self._config
        window_ms = config.quota_window_size_seconds * 1000
        rates = {"count": config.quota_window_num, "window_ms": window_ms}

        def rate(key: str, throttle_ms_max: int = THROTTLE_MS_MAX) -> Rate | None:
            limit, place = self._limit(key, user, client_id)
            if limit is None:
                return None
            found = self._rates.get(place)
            if found is None:
                found = Rate(limit, throttle_ms_max=throttle_ms_max, **rates)
                self._rates[place] = found
            found.limit = limit
            return found

        found = Limits(
            rate(PRODUCER_BYTE_RATE),
            rate(CONSUMER_BYTE_RATE),
            rate(REQUEST_PERCENTAGE, window_ms),
            self._bucket(user, client_id),
        )
        return found if any(getattr(found, name) for name in Limits.__slots__) else None

    def _bucket(self, user: str, client_id: str) -> TokenBucket | None:
        limit, place = self._limit(CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return None
        found = self._buckets.get(place)
        if found is None:
            found = self._buckets[place] = TokenBucket(
                limit,
                count=self._config.controller_quota_window_num,
                window_ms=self._config.controller_quota_window_size_seconds * 1000,
            )
        found.limit = limit
        return found

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
        """Nobody loses by it: who is active is looked up again, with what it has used so far."""
        now_ms = self._clock.now_ms()
        self._limits.clear()
        _drop_quiet(self._rates, now_ms)
        _drop_quiet(self._buckets, now_ms)


def _precedence(user: str, client_id: str) -> Iterator[tuple[QuotaEntity, str | None, str | None]]:
    """Kafka's order, the first that has a limit counts; and who shares it with whom: a limit of a
    user (or the default of users) is for all of that user's clients together, one of a client id
    for all users together that call themselves so."""
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


def _drop_quiet(meters: dict[tuple[str, str | None, str | None], Meter], now_ms: int) -> None:
    for place in [place for place, meter in meters.items() if meter.is_quiet(now_ms)]:
        del meters[place]
    while len(meters) > CLIENTS_MAX:  # more than can be: the oldest start anew
        del meters[next(iter(meters))]


class Timed:
    """Awaits a coroutine and counts the time in which it runs, not that in which it waits."""

    __slots__ = ("_coroutine", "spent_ns")

    def __init__(self, coroutine: CoroutineType[Any, Any, Any]) -> None:
        self._coroutine = coroutine
        self.spent_ns = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Any = self._coroutine.send
        value: Any = None
        while True:
            started_ns = time.perf_counter_ns()
            try:
                waits_for = step(value)
            except StopIteration as stop:
                return stop.value
            finally:
                self.spent_ns += time.perf_counter_ns() - started_ns
            try:
                value = yield waits_for
                step = self._coroutine.send
            except BaseException as error:
                value = error
                step = self._coroutine.throw


class MutationCharge:
    """What one request may still create or delete, as the controller asks topic by topic (KIP-599).

    Newer clients know THROTTLING_QUOTA_EXCEEDED and are refused while there is a debt; older ones
    are served, and muted.
    """

    def __init__(self, ctx: Context, *, strict_from: int) -> None:
        self.throttle_ms = 0
        self._bucket = ctx.limits.mutations if ctx.limits is not None else None
        self._strict = ctx.version >= strict_from
        self._now_ms = ctx.now_ms
        self._decided: dict[str, KafkaError | None] = {}

    def __call__(self, topic: str, partition_count: int) -> None:
        """KafkaError if it has to wait. A topic is charged once, even if it is decided on anew."""
        if self._bucket is None:
            return
        if topic not in self._decided:
            self._decided[topic] = self._charge(self._bucket, partition_count)
        failure = self._decided[topic]
        if failure is not None:
            raise failure

    def _charge(self, bucket: TokenBucket, partition_count: int) -> KafkaError | None:
        if self._strict:
            self.throttle_ms = bucket.throttle_ms(self._now_ms)
            if self.throttle_ms > 0:
                return KafkaError(
                    ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded."
                )
        bucket.record(partition_count, self._now_ms)
        if not self._strict:
            self.throttle_ms = bucket.throttle_ms(self._now_ms)
        return None
