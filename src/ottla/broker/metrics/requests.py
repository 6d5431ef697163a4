"""Between the server and the broker: every request is timed and counted on its way through.

A broker without metrics is the server's application itself, so that nothing of this costs it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from time import perf_counter_ns
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Final, cast

from ottla.broker.authentication import SaslGate
from ottla.broker.context import Session
from ottla.broker.metrics import meters
from ottla.broker.metrics.codes import Codes
from ottla.broker.metrics.meters import (
    Brought,
    Meter,
    brought_by,
    count_brought,
    count_fetched,
    count_produced,
)
from ottla.broker.metrics.traffic import Topics
from ottla.broker.turns import EncodedResponse
from ottla.errors import ErrorCode
from ottla.metrics import Family, by_label
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.connection import Request
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.primitives import Message

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

PRODUCE: Final = int(ApiKey.PRODUCE)
FETCH: Final = int(ApiKey.FETCH)
TOPIC_IDS_FROM: Final = 13  # of Produce and of Fetch


class Metered:
    """An Application (see net/inbound.py) in front of the broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._meters: dict[int, Meter] = {}
        self._follower_fetches = Meter("FetchFollower", APIS[FETCH].version_max)
        self.served: Mapping[int, tuple[int, int]] = broker.served
        self._countings: set[asyncio.Future[None]] = set()  # of large responses, elsewhere
        self.topics = Topics(lambda name: name in broker.image.topics)
        self.connections: Counter[str] = Counter()  # by listener, as the next two
        self.opened: Counter[str] = Counter()
        self.closed: Counter[str] = Counter()

    # What the server calls

    def admit(self, host: str) -> tuple[int, int]:
        return self._broker.admit(host)

    def connected(
        self,
        listener: str,
        host: str,
        port: int,
        mute: Callable[[int], None],
        hold: Callable[[bool], None],
    ) -> Session:
        self.connections[listener] += 1
        self.opened[listener] += 1
        return self._broker.connected(listener, host, port, mute, hold)

    def gate(self, session: Session, certificate: bytes | None) -> SaslGate | None:
        return self._broker.gate(session, certificate)

    def rejected(self, listener: str, reason: str) -> None:
        self._broker.rejected(listener, reason)

    def disconnected(self, session: Session) -> None:
        self.connections[session.listener] -= 1
        self.closed[session.listener] += 1
        self._broker.disconnected(session)

    def dispatch(self, session: Session, request: Request) -> Any:
        """HOT while metrics are on."""
        key = request.api_key
        meter = self._meters.get(key) or self._meter(key)
        if key == FETCH and isinstance(request.body, FetchRequest) and is_follower(request.body):
            meter = self._follower_fetches
        versions = meter.versions
        versions[min(request.version, len(versions) - 1)] += 1
        started_ns = perf_counter_ns()
        try:
            answer = self._broker.dispatch(session, request)
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
        self, answer: Any, meter: Meter, request: Request, started_ns: int, spent_ns: int
    ) -> asyncio.Future[Any]:
        """A task is what the server would have made of a coroutine; a future stays what it is."""
        meter.before_waiting.observe(spent_ns)
        meter.waiting += 1
        brought = None
        if request.api_key == PRODUCE:
            brought = brought_by(request.body, self._names(request))  # type: ignore[arg-type]
        future: asyncio.Future[Any] = asyncio.ensure_future(answer)
        future.add_done_callback(partial(self._answered, meter, request, brought, started_ns))
        return future

    def _answered(
        self,
        meter: Meter,
        request: Request,
        brought: list[Brought] | None,
        started_ns: int,
        future: asyncio.Future[Any],
    ) -> None:
        meter.waiting -= 1
        meter.until_answered.observe(perf_counter_ns() - started_ns)
        if future.cancelled():  # the client has left
            return
        if future.exception() is not None:
            meter.errors[ErrorCode.UNKNOWN_SERVER_ERROR] += 1
        elif brought is not None:
            count_brought(meter, self.topics, brought, future.result())
        else:
            self._count(meter, request, future.result())

    def _count(self, meter: Meter, request: Request, response: Any) -> None:
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

    async def _count_large(self, meter: Meter, response: Message) -> None:
        meter.errors.update(await self._broker.turns.off_loop(meter.errors_of, response))

    def _names(self, request: Request) -> list[str]:
        """Those of a Produce request's topics."""
        body: Any = request.body
        if request.version >= TOPIC_IDS_FROM:
            known = self._broker.image.names_by_id
            return [known.get(topic.topic_id, "") for topic in body.topic_data]
        return [topic.name for topic in body.topic_data]

    def _meter(self, key: int) -> Meter:
        api = APIS[key]
        if key == FETCH:
            found = Meter("FetchConsumer", api.version_max)
        else:
            codes = None if key == PRODUCE else Codes(response_type(key))
            found = Meter(api.name, api.version_max, codes)
        self._meters[key] = found
        return found

    # What the page asks

    def families(self) -> Iterator[Family]:
        used = sorted(self._meters.values(), key=lambda each: each.name)
        if any(self._follower_fetches.versions):
            used.append(self._follower_fetches)
        yield from meters.families(used)
        yield from self.topics.families()
        name = "kafka_server_socket_server_metrics_connection"
        for field, counts, help in (
            ("creation_total", self.opened, "Connections that were accepted."),
            ("close_total", self.closed, "Connections that have ended."),
        ):
            listeners = [(each, counts[each]) for each in sorted(self.opened)]
            yield by_label(f"{name}_{field}", "counter", help, "listener", listeners)
        listeners = [(each, self.connections[each]) for each in sorted(self.opened)]
        yield by_label(f"{name}_count", "gauge", "Open connections.", "listener", listeners)
        yield from self._broker.authentication_counts.families()


def response_type(key: int) -> type[Message]:
    found: type[Message] = cast(Any, APIS[key].response)
    return found


def is_follower(request: FetchRequest) -> bool:
    """Followers name themselves: before v15 in one place, then in another (KIP-903)."""
    state = request.replica_state
    return request.replica_id >= 0 or (state is not None and state.replica_id >= 0)
