"""The wrapper between the server and the broker, which times and counts every request.

Without metrics the broker itself is the server's application, so this costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.broker.client_session import ClientSession
from ottla.broker.large_requests import EncodedResponse
from ottla.broker.metrics import request_metrics
from ottla.broker.metrics.broker_topic_stats import BrokerTopicStats
from ottla.broker.metrics.error_code_finder import ErrorCodeFinder
from ottla.broker.metrics.request_metrics import (
    PendingProduce,
    RequestMetrics,
    count_committed,
    count_fetched,
    count_produced,
    pending_produces,
)
from ottla.errors import ErrorCode
from ottla.metrics import MetricFamily, by_label
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import Request
from ottla.wire.fields import Message
from ottla.wire.messages.fetch import FetchRequest

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts
    from ottla.net.authenticator import Authenticator
    from ottla.net.channel import RequestHandler

PRODUCE: Final = int(ApiKey.PRODUCE)
FETCH: Final = int(ApiKey.FETCH)
TOPIC_IDS_FROM: Final = 13  # of Produce and of Fetch


class MeteredApplication:
    """A RequestHandler (see net/channel.py) in front of the broker."""

    def __init__(self, application: RequestHandler, broker: BrokerParts) -> None:
        self._application = application
        self._broker = broker
        self._meters: dict[int, RequestMetrics] = {}
        self._follower_fetches = RequestMetrics("FetchFollower", APIS[FETCH].version_max)
        self.served: Mapping[int, tuple[int, int]] = application.served
        self._countings: set[asyncio.Future[None]] = set()  # of large responses, off the loop
        self.topics = BrokerTopicStats(lambda name: name in broker.image.topics)
        self.connections: Counter[str] = Counter()  # by listener, like the next two
        self.opened: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()

    # Called by the server

    def admit(self, host: str) -> tuple[int, int]:
        return self._application.admit(host)

    def connected(
        self,
        listener: str,
        host: str,
        port: int,
        mute: Callable[[int], None],
        hold: Callable[[bool], None],
    ) -> ClientSession:
        self.connections[listener] += 1
        self.opened[listener] += 1
        session: ClientSession = self._application.connected(listener, host, port, mute, hold)
        return session

    def authenticator(
        self, session: ClientSession, certificate: bytes | None
    ) -> Authenticator | None:
        return self._application.authenticator(session, certificate)

    def rejected(self, listener: str, reason: str) -> None:
        self._application.rejected(listener, reason)

    def disconnected(self, session: ClientSession) -> None:
        self.connections[session.listener] -= 1
        self.closed[session.listener] += 1
        self._application.disconnected(session)

    def dispatch(self, session: ClientSession, request: Request) -> Any:
        """HOT while metrics are on."""
        key = request.api_key
        meter = self._meters.get(key) or self._meter(key)
        if key == FETCH and isinstance(request.body, FetchRequest) and is_follower(request.body):
            meter = self._follower_fetches
        versions = meter.versions
        versions[min(request.version, len(versions) - 1)] += 1
        started_ns = perf_counter_ns()
        try:
            answer = self._application.dispatch(session, request)
        except Exception:
            meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
            raise
        spent_ns = perf_counter_ns() - started_ns
        if isinstance(answer, (asyncio.Future, CoroutineType)):
            return self._waits(answer, meter, request, started_ns, spent_ns)
        meter.at_once.observe(spent_ns)
        if key == PRODUCE:
            body: Any = request.body
            count_produced(meter, self.topics, self._names(request), body, answer)
        else:
            self._count(meter, request, answer)
        return answer

    def _waits(
        self, answer: Any, meter: RequestMetrics, request: Request, started_ns: int, spent_ns: int
    ) -> asyncio.Future[Any]:
        """Measure a request that waits. A coroutine becomes a task, as it would in the server."""
        meter.before_waiting.observe(spent_ns)
        meter.waiting += 1
        brought = None
        if request.api_key == PRODUCE:
            brought = pending_produces(request.body, self._names(request))  # type: ignore[arg-type]
        future: asyncio.Future[Any] = asyncio.ensure_future(answer)
        future.add_done_callback(partial(self._answered, meter, request, brought, started_ns))
        return future

    def _answered(
        self,
        meter: RequestMetrics,
        request: Request,
        brought: list[PendingProduce] | None,
        started_ns: int,
        future: asyncio.Future[Any],
    ) -> None:
        meter.waiting -= 1
        meter.until_answered.observe(perf_counter_ns() - started_ns)
        if future.cancelled():  # the client has disconnected
            return
        if future.exception() is not None:
            meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
        elif brought is not None:
            count_committed(meter, self.topics, brought, future.result())
        else:
            self._count(meter, request, future.result())

    def _count(self, meter: RequestMetrics, request: Request, response: Any) -> None:
        if isinstance(response, EncodedResponse):
            counting = asyncio.ensure_future(self._count_large(meter, response.response))
            self._countings.add(counting)
            counting.add_done_callback(self._countings.discard)
            return
        if request.api_key != FETCH:
            meter.count_errors(response)
            return
        names = [topic.topic for topic in response.responses]
        if request.version >= TOPIC_IDS_FROM:
            known = self._broker.image.names_by_id
            names = [known.get(topic.topic_id, "") for topic in response.responses]
        follower = meter is self._follower_fetches
        count_fetched(meter, self.topics, names, response, follower=follower)

    async def _count_large(self, meter: RequestMetrics, response: Message) -> None:
        meter.errors.update(await self._broker.large_requests.off_loop(meter.errors_of, response))

    def _names(self, request: Request) -> list[str]:
        """The names of a Produce request's topics."""
        body: Any = request.body
        if request.version >= TOPIC_IDS_FROM:
            known = self._broker.image.names_by_id
            return [known.get(topic.topic_id, "") for topic in body.topic_data]
        return [topic.name for topic in body.topic_data]

    def _meter(self, key: int) -> RequestMetrics:
        api = APIS[key]
        if key == FETCH:
            metrics = RequestMetrics("FetchConsumer", api.version_max)
        else:
            codes = None if key == PRODUCE else ErrorCodeFinder(response_type(key))
            metrics = RequestMetrics(api.name, api.version_max, codes)
        self._meters[key] = metrics
        return metrics

    # Called by the page

    def families(self) -> Iterator[MetricFamily]:
        used = sorted(self._meters.values(), key=lambda meter: meter.name)
        if any(self._follower_fetches.versions):
            used.append(self._follower_fetches)
        yield from request_metrics.request_families(used)
        yield from self.topics.families()
        name = "kafka_server_socket_server_metrics_connection"
        for field, counts, help in (
            ("creation_total", self.opened, "Accepted connections."),
            ("close_total", self.closed, "Closed connections."),
        ):
            listeners = [(listener, counts[listener]) for listener in sorted(self.opened)]
            yield by_label(f"{name}_{field}", "counter", help, "listener", listeners)
        listeners = [(listener, self.connections[listener]) for listener in sorted(self.opened)]
        yield by_label(f"{name}_count", "gauge", "Open connections.", "listener", listeners)
        yield from self._broker.authentication_counts.families()


def response_type(key: int) -> type[Message]:
    found: type[Message] = cast(Any, APIS[key].response)
    return found


def is_follower(request: FetchRequest) -> bool:
    """True if a follower sent this; its id is in another field since v15 (KIP-903)."""
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)
