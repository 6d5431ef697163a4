"""Producer: sends records, returns futures of their metadata."""

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
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.permissions import denied
from ottla.client.record import K, RecordMetadata, V
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import (
    Serdes,
    ToBytes,
    not_serializable,
    serialized,
    serializers_of,
    writing_serdes,
)
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, librdkafka_settings
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey

if TYPE_CHECKING:
    from ottla.client.consumer import Consumer

POLL_S: Final = 0.1
BLOCK_S_MAX: Final = 60.0
FLUSH_S_MAX: Final = 60.0
LOGIN_SLICE_S: Final = 1.0  # the longest time until a refused login is noticed
FIRST_CONTACT_S: Final = 2.0  # how long an idle producer reports brokers that it can't reach
UNREACHABLE_S: Final = 0.5
STANDSTILL_S: Final = 5.0  # the caller waits for the exception of the `with` body
FLUSH_LOOK_S: Final = 0.1

log = logging.getLogger("ottla.client")


class FutureRecordMetadata(Future[RecordMetadata]):
    """A record in flight: `.result()` or `await` waits for it. Errors are KafkaErrors."""

    def __init__(self, errors: ConnectionErrors | None = None) -> None:
        super().__init__()
        self._errors = errors

    def result(self, timeout: float | None = None) -> RecordMetadata:
        try:
            return super().result(timeout)
        except TimeoutError:
            if self.done():
                raise
            why = self._errors.reason() if self._errors is not None else ""
            raise TimeoutError(f"the record was not delivered in {timeout} s{why}") from None

    def __await__(self) -> Generator[None, None, RecordMetadata]:
        return asyncio.wrap_future(self).__await__()


# confluent-kafka raises a fatal error (fenced, not authorized) once, from the call that serves
# librdkafka's events, and as a SystemError if that call runs a delivery report. The futures carry
# the error to the caller, so poll, flush and close ignore it.
_FATAL: Final = (confluent_kafka.KafkaException, SystemError)


class Producer(Generic[K, V]):
    """Sends records to topics.

        with Producer("localhost:9092", value=str) as producer:
            producer.send("greetings", "hello").result()

    `delivery` is one of ottla.client.delivery's words; `settings` are Kafka's producer settings and
    win over what that word sets. The partitioner is the Java client's (murmur2).
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
        if plain is not None:  # no serde needs the topic
            self._serdes = None
            self._key, self._value = plain
        self._block_s_max = block_s_max
        self._errors = ConnectionErrors(settings or {})
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            **PRODUCER[self.delivery],
            **librdkafka_settings(settings or {}),
            "error_cb": self._errors.on_error,
        }
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        self.raw: confluent_kafka.Producer = client_with(confluent_kafka.Producer, config)
        self._closing = threading.Event()
        self._under_way = threading.Event()
        self._under_way.set()  # the poller serves connection errors during the first seconds
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
    ) -> FutureRecordMetadata:
        """Queue a record. Blocks only while the queue is full, for at most `block_s_max`."""
        self._errors.check()
        future = FutureRecordMetadata(self._errors)

        def delivered(error: confluent_kafka.KafkaError | None, message: object) -> None:
            _complete(future, error, message)

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
                return future
            except BufferError:
                if time.monotonic() > deadline:
                    raise KafkaError(
                        ErrorCode.REQUEST_TIMED_OUT,
                        f"the producer's queue stayed full for {self._block_s_max} s"
                        f"{self._errors.reason()}",
                    ) from None
                time.sleep(POLL_S / 10)  # the poller thread makes room meanwhile
            except TypeError:  # the default serde passes values through unchecked
                if self._serdes is not None:
                    raise
                raise not_serializable(topic, (self._key, self._value), key, value) from None
            except confluent_kafka.KafkaException as error:
                raise kafka_error_of(error) from None

    def reach(self, timeout_s: float) -> bool:
        """True if a broker answers. A refused login is raised at once: waiting does not help."""
        deadline = time.monotonic() + timeout_s
        while True:
            wait_s = max(0.0, deadline - time.monotonic())
            try:
                self.raw.list_topics(timeout=min(LOGIN_SLICE_S, wait_s))
                return True
            except confluent_kafka.KafkaException:
                self.raw.poll(0)  # serves connection errors
                self._errors.check()
            if not wait_s:
                return False

    def flush(self, timeout_s: float = FLUSH_S_MAX) -> None:
        """Wait until every record is delivered or has failed."""
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
                    f"{left} records not delivered{waited}{self._errors.reason()}",
                )

    def _left(self, wait_s: float) -> int:
        """How many records are still in flight after this time."""
        try:
            return self.raw.flush(wait_s)
        except _FATAL:
            return self.raw.flush(wait_s)

    @contextmanager
    def transaction(self, consumer: Consumer[K, V] | None = None) -> Iterator[None]:
        """All records sent inside become visible at once, or not at all.

        With a consumer, the transaction includes the offsets of the records that the consumer has
        returned since the last one; when the body raises, the consumer rewinds to where it was.
        """
        self._call(self.raw.begin_transaction)
        try:
            yield
            if consumer is not None:
                offsets, group = consumer.processed_offsets()
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
                    consumer.on_abort()
            raise
        if consumer is not None:
            consumer.on_commit()

    def close(self, timeout_s: float = FLUSH_S_MAX) -> None:
        """Flush, then close the connections. A second close does nothing."""
        if self._closing.is_set():
            return
        try:
            self.flush(timeout_s)
        finally:
            self._closing.set()
            self._under_way.set()
            self._poller.join()
            self.raw.purge()  # drop what the flush could not deliver, else close waits for it again
            with warnings.catch_warnings():  # a fenced producer has nothing to abort
                warnings.simplefilter("ignore", RuntimeWarning)
                try:
                    self.raw.close()
                except _FATAL:  # the futures have the error; close goes on
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
        try:  # the exception of the body must not be hidden, nor wait for a minute
            self._flush_while_progressing()
            self.close(0)
        except KafkaError as failure:
            log.warning("%s", failure)

    def _flush_while_progressing(self) -> None:
        """As `flush`, but give up early if no record is delivered any more."""
        if self._closing.is_set():
            return
        now = moved_at = time.monotonic()
        deadline = now + FLUSH_S_MAX
        left = len(self.raw)
        while left and now < deadline:
            remaining = self._left(FLUSH_LOOK_S)
            now = time.monotonic()
            if remaining < left:
                left, moved_at, self._errors.all_down = remaining, now, False
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
        """Serves delivery reports in a thread, so that callers need not poll.

        The thread sleeps while nothing is in flight. `send` sets the event after `produce`, and
        this loop clears it before it reads the count, so it misses no record. In its first
        seconds it also serves connection errors, so that an address without a broker is logged at
        once.
        """
        while not self._closing.is_set():
            self._under_way.wait()
            self._under_way.clear()
            while self._has_to_poll() and not self._closing.is_set():
                with suppress(*_FATAL):  # the futures that are left wait for this thread
                    self.raw.poll(POLL_S)

    def _has_to_poll(self) -> bool:
        return len(self.raw) > 0 or time.monotonic() < self._listens_until

    def _call(self, operation: Callable[..., object], *arguments: object) -> None:
        try:
            operation(*arguments)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None


def _complete(future: FutureRecordMetadata, error: object, message: object) -> None:
    if future.cancelled():
        return
    if error is not None:
        topic = message.topic() if isinstance(message, confluent_kafka.Message) else None
        future.set_exception(denied(kafka_error_of(error), ApiKey.PRODUCE, topic or ""))
        return
    assert isinstance(message, confluent_kafka.Message)
    offset = message.offset()
    future.set_result(
        RecordMetadata(
            message.topic() or "",
            message.partition() or 0,
            -1 if offset is None or offset < 0 else offset,
            message.timestamp()[1],
        )
    )
