"""ShareConsumer: reads topics as a queue (KIP-932).

    with ShareConsumer("localhost:9092", "orders", group="workers", value=dict) as consumer:
        for record in consumer:
            work(record.value)

A delivered record belongs to this consumer for a while. Asking for the next record accepts it;
`release` makes it available to others, `reject` archives it. An exception that leaves the `with`
releases the current record. A record that can't be read raises an error, or is rejected with
`deserialization_exception_handler="continue"`: then it goes to the group's dead letter topic, if
there is one (`errors.deadletterqueue.topic.name`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, Final, Generic, Self

import confluent_kafka

from ottla.client.dead_letters import OnUndecodable, handler_of
from ottla.client.delivery import Setting
from ottla.client.kafka_errors import interrupted, kafka_error_of
from ottla.client.record import ConsumerRecord, K, TopicPartition, V
from ottla.client.record_reader import RecordDeserializationError, is_trouble, record_reader
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import FromBytes
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, librdkafka_settings
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.5
COMMIT_S_MAX: Final = 10.0
ACCEPT, RELEASE, REJECT = 1, 2, 3

# Offsets that a broker has answered for, and why it refused them; None: it has stored them.
OnAcknowledgementCommit = Callable[[Mapping[TopicPartition, set[int]], KafkaError | None], None]


class ShareConsumer(Generic[K, V]):
    """A member of a share group. Not thread-safe."""

    def __init__(
        self,
        bootstrap_servers: str,
        topics: str | Iterable[str],
        *,
        group: str,
        key: FromBytes[K] = BYTES,  # type: ignore[assignment]
        value: FromBytes[V] = BYTES,  # type: ignore[assignment]
        deserialization_exception_handler: str | OnUndecodable = "fail",
        on_acknowledgement_commit: OnAcknowledgementCommit | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        """`on_acknowledgement_commit` runs in this thread, within poll, commit or close."""
        make = share_consumer_class()
        self._read = record_reader(key, value, settings or {})
        self._on_undecodable = handler_of(deserialization_exception_handler)
        self._errors = ConnectionErrors(settings or {})
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            **librdkafka_settings(settings or {}),
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "error_cb": self._errors.on_error,
        }
        self.raw: Any = client_with(make, config)
        self._waiting: deque[Any] = deque()
        self._at_hand: Any = None
        if on_acknowledgement_commit is not None:
            self.raw.set_acknowledgement_commit_callback(_callback(on_acknowledgement_commit))
        self.raw.subscribe([topics] if isinstance(topics, str) else list(topics))

    def poll(self, timeout_s: float = POLL_S) -> ConsumerRecord[K, V] | None:
        """The next record; accepts the one before, unless it was released or rejected."""
        self._acknowledge(ACCEPT)
        deadline = time.monotonic() + timeout_s
        while True:
            while not self._waiting:
                left = deadline - time.monotonic()
                self._errors.check()
                if left < 0:
                    return None
                self._fetch(left)
            message = self._at_hand = self._waiting.popleft()
            try:
                record = self._read(message)
            except RecordDeserializationError as error:
                if self._on_undecodable is None:
                    raise
                self._on_undecodable(error)
                self.reject()  # the group's dead letter topic gets it
                continue
            except Exception:  # not the record's fault: return it once it can be read
                self._waiting.appendleft(message)
                self._at_hand = None
                raise
            return replace(record, delivery_count=message.delivery_count())

    def accept(self) -> None:
        """The current record is processed."""
        self._acknowledge(ACCEPT)

    def release(self) -> None:
        """Make the current record available again, for any member."""
        self._acknowledge(RELEASE)

    def reject(self) -> None:
        """Do not deliver the current record again."""
        self._acknowledge(REJECT)

    @property
    def has_more(self) -> bool:
        """True if there are fetched records that were not returned yet."""
        return bool(self._waiting)

    def commit(self) -> None:
        """Send the acknowledgements to the broker, and wait for its answer."""
        for error in self._call(self.raw.commit_sync, COMMIT_S_MAX).values():
            if error is not None:
                raise kafka_error_of(error)

    def commit_async(self) -> None:
        """Send the acknowledgements to the broker; `on_acknowledgement_commit` has its answer."""
        self._call(self.raw.commit_async)

    def close(self) -> None:
        """Release records that were not returned yet, and leave the group."""
        self._acknowledge(ACCEPT)
        for message in self._waiting:
            self._call(self.raw.acknowledge, message, RELEASE)
        self._waiting.clear()
        self._call(self.raw.close)

    def __iter__(self) -> Iterator[ConsumerRecord[K, V]]:
        while True:
            record = self.poll()
            if record is not None:
                yield record

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None and not isinstance(error, (KeyboardInterrupt, GeneratorExit)):
            self.release()
        self.close()

    def _acknowledge(self, word: int) -> None:
        message, self._at_hand = self._at_hand, None
        if message is not None:
            self._call(self.raw.acknowledge, message, word)

    def _fetch(self, timeout_s: float) -> None:
        for message in self._call(self.raw.poll, timeout_s):
            if not is_trouble(message):
                self._waiting.append(message)

    def _call(self, what: Callable[..., Any], *arguments: object) -> Any:
        try:
            return what(*arguments)
        except confluent_kafka.KafkaException as error:
            raise kafka_error_of(error) from None
        except SystemError as error:
            raise interrupted(error) from None


def share_consumer_class() -> Callable[[dict[str, Any]], Any]:
    """librdkafka's; KafkaError if it is too old to have one."""
    found = getattr(confluent_kafka, "ShareConsumer", None)
    if found is None:
        words = "share consumers need confluent-kafka 2.16"
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, words)
    return found  # type: ignore[no-any-return]


def _callback(
    on_commit: OnAcknowledgementCommit,
) -> Callable[[Mapping[Any, set[int]], confluent_kafka.KafkaException | None], None]:
    """The same with librdkafka's types."""

    def call(offsets: Mapping[Any, set[int]], error: confluent_kafka.KafkaException | None) -> None:
        answered = {
            TopicPartition(partition.topic, partition.partition): found
            for partition, found in offsets.items()
        }
        on_commit(answered, None if error is None else kafka_error_of(error))

    return call
