"""ShareConsumer: records of topics as from a queue (KIP-932).

    with ShareConsumer("localhost:9092", "orders", group="workers", value=dict) as consumer:
        for record in consumer:
            work(record.value)

A record that was handed out is this consumer's for a while. It is accepted when the next one is
asked for; `release` gives it back for somebody else, `reject` takes it out of the queue. Leaving
the `with` by an exception releases the record at hand. A record that can't be read is an error, or
with `deserialization_exception_handler="continue"` rejected: then it goes to the dead letter topic
of the group, if that has one (`errors.deadletterqueue.topic.name`).
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
from ottla.client.failures import failure_of, interrupted
from ottla.client.received import RecordDeserializationError, is_trouble, reader_of
from ottla.client.record import K, Record, V
from ottla.client.serde import BYTES
from ottla.client.serde_arguments import FromBytes
from ottla.client.settings import LOG_LEVEL, ConnectionErrors, client_with, translate
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.5
COMMIT_S_MAX: Final = 10.0
ACCEPT, RELEASE, REJECT = 1, 2, 3


class ShareConsumer(Generic[K, V]):
    """A member of a share group. It belongs to one thread."""

    def __init__(
        self,
        bootstrap_servers: str,
        topics: str | Iterable[str],
        *,
        group: str,
        key: FromBytes[K] = BYTES,  # type: ignore[assignment]
        value: FromBytes[V] = BYTES,  # type: ignore[assignment]
        deserialization_exception_handler: str | OnUndecodable = "fail",
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        make = getattr(confluent_kafka, "ShareConsumer", None)
        if make is None:
            words = "share consumers need confluent-kafka 2.16"
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, words)
        self._read = reader_of(key, value, settings or {})
        self._on_undecodable = handler_of(deserialization_exception_handler)
        self._errors = ConnectionErrors(settings or {})
        wishes: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "log_level": LOG_LEVEL,
            **translate(settings or {}),
            "group.id": group,
            "share.acknowledgement.mode": "explicit",
            "error_cb": self._errors.tell,
        }
        self.raw: Any = client_with(make, wishes)
        self._waiting: deque[Any] = deque()
        self._at_hand: Any = None
        self.raw.subscribe([topics] if isinstance(topics, str) else list(topics))

    def poll(self, timeout_s: float = POLL_S) -> Record[K, V] | None:
        """The next record; the one before is accepted, unless it was released or rejected."""
        self._settle(ACCEPT)
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
                self.reject()  # nobody can read it: the group's dead letter topic gets it
                continue
            except Exception:  # not the record's fault: it is handed out when it can be read
                self._waiting.appendleft(message)
                self._at_hand = None
                raise
            return replace(record, delivery_count=message.delivery_count())

    def accept(self) -> None:
        """The record at hand is done."""
        self._settle(ACCEPT)

    def release(self) -> None:
        """The record at hand is to be delivered again, to whoever comes first."""
        self._settle(RELEASE)

    def reject(self) -> None:
        """The record at hand is not to be delivered again."""
        self._settle(REJECT)

    @property
    def has_more(self) -> bool:
        """Are there records that were fetched and not handed out yet?"""
        return bool(self._waiting)

    def commit(self) -> None:
        """Tell the broker what became of the records, and wait for its answer."""
        for error in self._call(self.raw.commit_sync, COMMIT_S_MAX).values():
            if error is not None:
                raise failure_of(error)

    def close(self) -> None:
        """Give back what was fetched and not handed out, and leave the group."""
        self._settle(ACCEPT)
        for message in self._waiting:
            self._call(self.raw.acknowledge, message, RELEASE)
        self._waiting.clear()
        self._call(self.raw.close)

    def __iter__(self) -> Iterator[Record[K, V]]:
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

    def _settle(self, word: int) -> None:
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
            raise failure_of(error) from None
        except SystemError as error:
            raise interrupted(error) from None
