"""What requests are charged against the quotas of their client, and how long it is muted for that.

    serve_with_quotas      any request: bytes that it produced, time that it took
    MutationQuotaCharge    topics and partitions to be created or deleted, asked by the controller

A throttled response says so (throttle_time_ms) and is sent at once; then nothing more is read from
its connection for that time (KIP-219). Fetch charges its bytes itself, where it knows them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from types import CoroutineType
from typing import Any, Final

from ottla.broker.quotas import ClientLimits
from ottla.broker.rates import TokenBucket
from ottla.broker.request_context import Handler, RequestContext
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request

PRODUCE: Final = int(ApiKey.PRODUCE)
# Requests between brokers are never throttled for the time they take.
EXEMPT: Final = frozenset({int(ApiKey.WRITE_TXN_MARKERS)})


def serve_with_quotas(handle: Handler, ctx: RequestContext, request: Request) -> Any:
    """HOT while a quota is set. The handler's answer, measured and charged to the client."""
    limits = ctx.broker.quotas.limits(ctx.session.user, ctx.client_id or "")
    if limits is None:
        return handle(ctx, request.body)
    ctx.limits = limits
    started_ns = time.perf_counter_ns()
    answer = handle(ctx, request.body)
    spent_ns = time.perf_counter_ns() - started_ns
    if isinstance(answer, asyncio.Future):
        return _charged_later(answer, ctx, request, limits, spent_ns)
    if isinstance(answer, CoroutineType):
        return _charged_task(answer, ctx, request, limits, spent_ns)
    _charge(ctx, request, limits, answer, spent_ns)
    return answer


def _charged_later(
    answer: asyncio.Future[Any],
    ctx: RequestContext,
    request: Request,
    limits: ClientLimits,
    spent_ns: int,
) -> asyncio.Future[Any]:
    """Returns a future, because only futures are cancelled when their client disconnects."""
    charged: asyncio.Future[Any] = answer.get_loop().create_future()

    def finish(done: asyncio.Future[Any]) -> None:
        if charged.done():
            return
        if done.cancelled():
            charged.cancel()
        elif (error := done.exception()) is not None:
            charged.set_exception(error)
        else:
            _charge(ctx, request, limits, done.result(), spent_ns)
            charged.set_result(done.result())

    def give_up(done: asyncio.Future[Any]) -> None:
        if done.cancelled():
            answer.cancel()

    answer.add_done_callback(finish)
    charged.add_done_callback(give_up)
    return charged


async def _charged_task(
    answer: CoroutineType[Any, Any, Any],
    ctx: RequestContext,
    request: Request,
    limits: ClientLimits,
    spent_ns: int,
) -> Any:
    timed = TimedAwaitable(answer)
    response = await timed
    _charge(ctx, request, limits, response, spent_ns + timed.spent_ns)
    return response


def _charge(
    ctx: RequestContext, request: Request, limits: ClientLimits, response: Any, spent_ns: int
) -> None:
    """Kafka mutes for the longest of all that a request has earned, not for their sum."""
    now_ms = ctx.broker.clock.now_ms()
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


class TimedAwaitable:
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


class MutationQuotaCharge:
    """What one request may still create or delete, as the controller asks topic by topic (KIP-599).

    Newer clients know THROTTLING_QUOTA_EXCEEDED and are refused while there is a debt; older ones
    are served, and muted.
    """

    def __init__(self, ctx: RequestContext, *, strict_from: int) -> None:
        self.throttle_ms = 0
        self._bucket = ctx.limits.mutations if ctx.limits is not None else None
        self._strict = ctx.version >= strict_from
        self._now_ms = ctx.now_ms
        self._decided: dict[str, KafkaError | None] = {}

    def __call__(self, topic: str, partition_count: int) -> None:
        """KafkaError if the client has to wait. Each topic is charged only once."""
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
