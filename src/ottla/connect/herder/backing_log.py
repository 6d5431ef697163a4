"""A log of keyed JSON records that a herder writes and follows: a compacted topic, or memory.

Distributed workers share topics (KafkaBasedLog in Kafka); a standalone worker keeps the same
records in memory. The herder does not know which of them it has.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from ottla.client import (
    Admin,
    Consumer,
    ConsumerRecord,
    FutureRecordMetadata,
    Producer,
    RecordMetadata,
    TopicPartition,
)
from ottla.client.delivery import Setting
from ottla.client.offsets import OffsetAt
from ottla.connect.herder.config_state import KeyedRecord, Value
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.2
RETRY_S: Final = 1.0
WRITE_S_MAX: Final = 30.0
ASK_S_MAX: Final = 5.0  # the group's thread may wait for this, and sends no heartbeats meanwhile
CLOSE_S_MAX: Final = 5.0  # a worker must stop even if the broker is away
SILENCE_S: Final = 5.0  # after this, records missing before the end are assumed to be compacted

log = logging.getLogger("ottla.connect")

OnRecord = Callable[[str, Value, int], None]
"""Called with key, value and offset of each record, in order, on one thread."""


class BackingLog(Protocol):
    def start(self, on_record: OnRecord) -> None: ...

    def write(self, pairs: Sequence[KeyedRecord]) -> None:
        """Returns when the records are committed and this worker has read them back."""

    def send(self, pairs: Sequence[KeyedRecord]) -> None:
        """Writes without waiting; a failure is logged."""

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until everything is read that was there at the call; False after the timeout."""

    @property
    def replayed(self) -> bool:
        """True once everything is read that was there at the start."""

    def close(self) -> None: ...


class MemoryBackingLog:
    def __init__(self) -> None:
        self._on_record: OnRecord = lambda key, value, number: None
        self._count = 0
        self._lock = threading.RLock()

    def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record

    def write(self, pairs: Sequence[KeyedRecord]) -> None:
        with self._lock:
            for key, value in pairs:
                number, self._count = self._count, self._count + 1
                self._on_record(key, value, number)

    def send(self, pairs: Sequence[KeyedRecord]) -> None:
        self.write(pairs)

    def catch_up(self, timeout_s: float) -> bool:
        return True

    @property
    def replayed(self) -> bool:
        return True

    def close(self) -> None:
        self._on_record = lambda key, value, number: None


class TopicBackingLog:
    """`partitions`: the config topic must have one, because the order of its records matters."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        configs: Mapping[str, str] | None = None,
        settings: Mapping[str, Setting] | None = None,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions
        self._replication_factor = replication_factor
        self._configs = {"cleanup.policy": "compact", **(configs or {})}
        self._settings = dict(settings or {})
        self._on_record: OnRecord = lambda key, value, number: None
        self._producer: Producer[bytes, bytes] | None = None
        self._positions: dict[int, int] = {}
        self._position_changed = threading.Condition()
        self._replayed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ottla-{topic}", daemon=True)

    @property
    def replayed(self) -> bool:
        return self._replayed.is_set()

    def start(self, on_record: OnRecord) -> None:
        self._on_record = on_record
        self._thread.start()

    def write(self, pairs: Sequence[KeyedRecord]) -> None:
        producer = self._sender()
        sent = [self._send(producer, *record) for record in pairs]
        ends: dict[int, int] = {}
        for future in sent:
            delivered = future.result(WRITE_S_MAX)
            ends[delivered.partition] = delivered.offset + 1
        if not self._wait(ends, WRITE_S_MAX):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._topic} was written but could not be read back"
            )

    def send(self, pairs: Sequence[KeyedRecord]) -> None:
        producer = self._sender()
        for key, value in pairs:
            self._send(producer, key, value).add_done_callback(self._log_failure)

    def catch_up(self, timeout_s: float) -> bool:
        return self._wait(self._ends(), timeout_s)

    def close(self) -> None:
        self._stopping.set()
        with self._position_changed:
            self._position_changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        if self._producer is not None:
            try:
                self._producer.close(CLOSE_S_MAX)
            except KafkaError as error:
                log.warning("Closing the producer of %s failed: %s", self._topic, error)

    def _send(
        self, producer: Producer[bytes, bytes], key: str, value: Value
    ) -> FutureRecordMetadata:
        data = None if value is None else _dumps(value)
        return producer.send(self._topic, data, key=key.encode())

    def _sender(self) -> Producer[bytes, bytes]:
        with self._position_changed:
            if self._producer is None:
                settings = {"linger.ms": 0, **self._settings}
                self._producer = Producer(self._bootstrap_servers, settings=settings)
            return self._producer

    def _log_failure(self, sending: Future[RecordMetadata]) -> None:
        error = sending.exception()
        if error is not None:
            log.warning("Writing to %s failed: %s", self._topic, error)

    def _wait(self, ends: Mapping[int, int], timeout_s: float) -> bool:
        def reached() -> bool:
            return all(self._positions.get(part, 0) >= end for part, end in ends.items())

        with self._position_changed:
            self._position_changed.wait_for(lambda: reached() or self._stopping.is_set(), timeout_s)
            return reached()

    def _run(self) -> None:
        logged = ""
        while not self._stopping.is_set():
            try:
                self._read_loop()
            except KafkaError as error:
                if str(error) != logged:  # the same error every second is logged once
                    log.warning("Reading %s failed, will retry: %s", self._topic, error)
                logged = str(error)
                self._stopping.wait(RETRY_S)
            except Exception:  # one bad record must not end the thread
                log.exception("Unexpected error while reading %s, will retry", self._topic)
                self._stopping.wait(RETRY_S)

    def _read_loop(self) -> None:
        self._create_topic()
        ends = self._ends()
        starts = {TopicPartition(self._topic, part): self._positions.get(part, 0) for part in ends}
        began = heard = time.monotonic()
        settings = {"isolation.level": "read_committed", **self._settings}
        with Consumer[bytes, bytes](self._bootstrap_servers, settings=settings) as consumer:
            consumer.assign(starts)
            while not self._stopping.is_set():
                if not self.replayed and self._wait(ends, 0):
                    log.info("Read %s to its end in %.1f s", self._topic, time.monotonic() - began)
                    self._replayed.set()
                record = consumer.poll(POLL_S)
                if record is not None:
                    heard = time.monotonic()
                    self._apply(record)
                elif not self.replayed and time.monotonic() - heard > SILENCE_S:
                    self._skip_compacted(ends)

    def _apply(self, record: ConsumerRecord[bytes, bytes]) -> None:
        try:
            key = (record.key or b"").decode()
            value = json.loads(record.value) if record.value is not None else None
            self._on_record(key, value, record.offset)
        except ValueError as error:
            log.warning("%s, offset %d is not JSON, skipped: %s", self._topic, record.offset, error)
        self._set_position(record.partition, record.offset + 1)

    def _skip_compacted(self, ends: Mapping[int, int]) -> None:
        """Compaction and transaction markers may leave no record right before the log end, so the
        position would never get there."""
        self._ends()  # raises if the broker is away, which would explain the silence, too
        for part, end in ends.items():
            self._set_position(part, max(end, self._positions.get(part, 0)))

    def _set_position(self, partition: int, position: int) -> None:
        with self._position_changed:
            self._positions[partition] = position
            self._position_changed.notify_all()

    def _create_topic(self) -> None:
        with Admin(self._bootstrap_servers, settings=self._settings) as admin:
            try:
                admin.topics.create(
                    self._topic,
                    self._partitions,
                    replication_factor=self._replication_factor,
                    configs=self._configs,
                )
            except KafkaError as error:
                if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise

    def _ends(self) -> dict[int, int]:
        with Admin(self._bootstrap_servers, settings=self._settings, timeout_s=ASK_S_MAX) as admin:
            description = admin.topics.describe(self._topic)[self._topic]
            if isinstance(description, KafkaError):
                raise description
            parts = [
                TopicPartition(self._topic, partition.partition)
                for partition in description.partitions
            ]
            found = admin.offsets.find(parts)
        ends = {}
        for part in parts:
            at = found[part]
            if not isinstance(at, OffsetAt):
                raise at
            ends[part.partition] = at.offset
        return ends


def _dumps(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
