"""Producer: records in, futures of where they lie out."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self

import confluent_kafka

from ottla.client.delivery import PRODUCER, Delivery, Setting, delivery_of
from ottla.client.failures import failure_of
from ottla.client.permissions import denied
from ottla.client.record import Delivered, K, V
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import (
    Serdes,
    ToBytes,
    not_serializable,
    serialized,
    serializers_of,
    writing_serdes,
)
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, translate
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.client.consumer import Consumer

POLL_S: Final = 0.1
BLOCK_S_MAX: Final = 60.0
FLUSH_S_MAX: Final = 60.0
LOGIN_SLICE_S: Final = 1.0  # how soon a refused login is noticed
FIRST_CONTACT_S: Final = 2.0  # how long an idle producer listens for brokers that are not there
UNREACHABLE_S: Final = 0.5
STANDSTILL_S: Final = 5.0  # the caller waits for the error of the `with` body
FLUSH_LOOK_S: Final = 0.1

log = logging.getLogger("ottla.client")


class Sending(Future[Delivered]):
    """A record under way: `.result()` waits for it, and so does `await`. Errors are KafkaErrors."""

    def __init__(self, errors: ConnectionErrors | None = None) -> None:
        super().__init__()
        self._errors = errors

    def result(self, timeout: float | None = None) -> Delivered:
        try:
            return super().result(timeout)
        except TimeoutError:
            if self.done():
                raise
            why = self._errors.because() if self._errors is not None else ""
            raise TimeoutError(f"the record was not delivered in {timeout} s{why}") from None

    def __await__(self) -> Generator[None, None, Delivered]:
        return asyncio.wrap_future(self).__await__()


# A fatal error (fenced, not authorised) is raised once by the call that serves librdkafka's
# events, with a SystemError where it meets a delivery report. Futures carry it to the caller, so
# poll, flush and close go on.
_FATAL: Final = (confluent_kafka.KafkaException, SystemError)


class Producer(Generic[K, V]):
    """Sends records to topics.

        with Producer("localhost:9092", value=str) as producer:
            producer.send("greetings", "hello").result()

    `delivery` is a word (see ottla.client.delivery); `settings` are Kafka's producer settings and
    win over what the word sets. Keys are spread over partitions as Java's clients spread them.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        key: ToBytes[K] = BYTES,  # type: ignore[assignment]
        value: ToBytes[V] = BYTES,  # type: ignore[assignment]
        delivery: str = Delivery.AT_LEAST_ONCE,
        transactional_id: str | None = None,
        settings: Mapping[str, Setting] | None = None,
        block_s_max: float = BLOCK_S_MAX,
    ) -> None:
        self.delivery = delivery_of(delivery)
        if (self.delivery is Delivery.EXACTLY_ONCE) != (transactional_id is not None):
            raise ValueError(
                "exactly_once needs a transactional_id: one that stays the same over restarts and"
                " differs from every other producer's; the other deliveries take none"
            )
        self._serdes: Serdes | None = writing_serdes(key, value, settings or {})
        plain = serializers_of(self._serdes)
        if plain is not None:  # no serde has to see the topic
            self._serdes = None
            self._key, self._value = plain
        self._block_s_max = block_s_max
        self._errors = ConnectionErrors(settings or {})
        wishes: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            **PRODUCER[self.delivery],
            **translate(settings or {}),
            "error_cb": self._errors.tell,
        }
        if transactional_id is not None:
            wishes["transactional.id"] = transactional_id
        self.raw: confluent_kafka.Producer = client_with(confluent_kafka.Producer, wishes)
        self._closing = threading.Event()
        self._under_way = threading.Event()
        self._under_way.set()  # the first seconds: is anybody there?
        self._listens_until = time.monotonic() + FIRST_CONTACT_S
        self._poller = threading.Thread(target=self._poll, name="ottla-producer", daemon=True)
        self._poller.start()
        if transactional_id is not None:
            self._call(self.raw.init_transactions, self._block_s_max)

    def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        partition: int | None = None,
        headers: Mapping[str, bytes | None] | Iterable[tuple[str, bytes | None]] = (),
        timestamp_ms: int | None = None,
    ) -> Sending:
        """Queue a record. Blocks only while the queue is full, for `block_s_max` at most."""
        self._errors.check()
        sending = Sending(self._errors)

        def delivered(error: confluent_kafka.KafkaError | None, message: object) -> None:
            _settle(sending, error, message)

        pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
        if self._serdes is None:
            try:
                data = None if value is None else self._value(value)
                key_data = None if key is None else self._key(key)
            except TypeError as error:
                raise not_serializable(topic, (self._key, self._value), key, value) from error
        else:
            key_data, data = serialized(self._serdes, topic, key, value, pairs)
        deadline = time.monotonic() + self._block_s_max
        while True:
            try:
                self.raw.produce(
                    topic,
                    data,
                    key_data,
                    -1 if partition is None else partition,
                    on_delivery=delivered,
                    timestamp=0 if timestamp_ms is None else timestamp_ms,
                    headers=pairs,
                )
                self._under_way.set()
                return sending
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"the producer's queue stayed full for {self._block_s_max} s"
                        f"{self._errors.because()}",
                    ) from None
                time.sleep(POLL_S / 10)  # the polling thread makes room meanwhile
            except TypeError:  # the default serde passes on what it is given
                if self._serdes is not None:
                    raise
                raise not_serializable(topic, (self._key, self._value), key, value) from None
            except confluent_kafka.KafkaException as error:
                raise failure_of(error) from None

    def reach(self, timeout_s: float) -> bool:
        """Does a broker answer? A refused login is raised at once: waiting does not help it."""
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, deadline - time.monotonic())
            try:
                self.raw.list_topics(timeout=min(LOGIN_SLICE_S, wait_s))
                return True
            except confluent_kafka.KafkaException:
                self.raw.poll(0)  # errors of connections are served here, before the first record
                self._errors.check()
            if not wait_s:
                return False

    def flush(self, timeout_s: float = FLUSH_S_MAX) -> None:
        """Wait until every record that was sent is delivered or has failed."""
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, deadline - time.monotonic())
            left = self._left(min(LOGIN_SLICE_S, wait_s))
            if not left:
                return
            self._errors.check()
            if not wait_s:
                waited = f" after {timeout_s} s" if timeout_s else ""
                raise KafkaError(
                    ErrorCode.REQUEST_TIMED_OUT,
                    f"{left} records not delivered{waited}{self._errors.because()}",
                )

    def _left(self, wait_s: float) -> int:
        """How many records are under way after this time."""
        try:
            return self.raw.flush(wait_s)
        except _FATAL:
            return self.raw.flush(wait_s)

    @contextmanager
    def transaction(self, consumer: Consumer[K, V] | None = None) -> Iterator[None]:
        """All that is sent inside becomes visible at once, or not at all.

        With a consumer, the offsets of the records that it handed out since the last transaction
        are part of it; when the body raises, the consumer goes back to where it was before them.
        """
        self._call(self.raw.begin_transaction)
        try:
            yield
            if consumer is not None:
                offsets, group = consumer.worked_off()
                if offsets:
                    self._call(
                        self.raw.send_offsets_to_transaction, offsets, group, self._block_s_max
                    )
            self._call(self.raw.commit_transaction, self._block_s_max)
        except BaseException:
            try:
                self._call(self.raw.abort_transaction, self._block_s_max)
            finally:
                if consumer is not None:
                    consumer.go_back()
            raise
        if consumer is not None:
            consumer.go_on()

    def close(self, timeout_s: float = FLUSH_S_MAX) -> None:
        """Flush, then let go of the connections. Closing twice is closing once."""
        if self._closing.is_set():
            return
        try:
            self.flush(timeout_s)
        finally:
            self._closing.set()
            self._under_way.set()
            self._poller.join()
            self.raw.purge()  # what the flush could not deliver: close would wait for it again
            with warnings.catch_warnings():  # who was fenced was told so: it has nothing to abort
                warnings.simplefilter("ignore", RuntimeWarning)
                try:
                    self.raw.close()
                except _FATAL:  # futures have it; close is not finished when it raises
                    self.raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
            return
        try:  # what the body has raised must not wait for a minute, nor be hidden
            self._flush_what_moves()
            self.close(0)
        except KafkaError as failure:
            log.warning("%s", failure)

    def _flush_what_moves(self) -> None:
        """As `flush`, but ends soon if no record is delivered any more."""
        if self._closing.is_set():
            return
        now = moved_at = time.monotonic()
        deadline = now + FLUSH_S_MAX
        left = len(self.raw)
        while left and now < deadline:
            still_left = self._left(FLUSH_LOOK_S)
            now = time.monotonic()
            if still_left < left:
                left, moved_at, self._errors.all_down = still_left, now, False
            elif now - moved_at > (UNREACHABLE_S if self._errors.all_down else STANDSTILL_S):
                return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)

    def _poll(self) -> None:
        """Delivery reports are served by a thread of ours, so that nobody has to call poll().

        It sleeps while nothing is under way. `send` sets the event behind `produce`, and it is
        cleared before the count is looked at: no record is missed. In its first seconds it also
        serves errors of connections, so that an address where nobody listens is logged at once.
        """
        while not self._closing.is_set():
            self._under_way.wait()
            self._under_way.clear()
            while self._has_to_poll() and not self._closing.is_set():
                with suppress(*_FATAL):  # the futures that are left wait for this thread
                    self.raw.poll(POLL_S)

    def _has_to_poll(self) -> bool:
        return len(self.raw) > 0 or time.monotonic() < self._listens_until

    def _call(self, what: Callable[..., object], *arguments: object) -> None:
        try:
            what(*arguments)
        except confluent_kafka.KafkaException as error:
            raise failure_of(error) from None


def _settle(sending: Sending, error: object, message: object) -> None:
    if sending.cancelled():
        return
    if error is not None:
        topic = message.topic() if isinstance(message, confluent_kafka.Message) else None
        sending.set_exception(denied(failure_of(error), ApiKey.PRODUCE, topic or ""))
        return
    assert isinstance(message, confluent_kafka.Message)
    offset = message.offset()
    sending.set_result(
        Delivered(
            message.topic() or "",
            message.partition() or 0,
            -1 if offset is None or offset < 0 else offset,
            message.timestamp()[1],
        )
    )
