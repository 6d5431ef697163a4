"""A log of keyed JSON records that a herder writes and follows: a compacted topic, or memory.

Distributed workers share topics; a standalone worker has nobody to share with, and keeps the same
records in memory. The herder above can't tell one from the other.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Final, Protocol

from ottla.client import Admin, Consumer, Delivered, Producer, Record, Sending, TopicPartition
from ottla.client.delivery import Setting
from ottla.client.offsets import OffsetAt
from ottla.connect.herder.configs import Pair, Value
from ottla.errors import ErrorCode, KafkaError

POLL_S: Final = 0.2
RETRY_S: Final = 1.0
WRITE_S_MAX: Final = 30.0
ASK_S_MAX: Final = 5.0  # who waits for this sends no heartbeats
CLOSE_S_MAX: Final = 5.0  # a worker can be stopped while the broker is away
SILENCE_S: Final = 5.0  # then what is missing before the end is gone, and not late

log = logging.getLogger("ottla.connect")

Told = Callable[[str, Value, int], None]
"""Called with key, value and number of each record, in their order, on one thread."""


class Log(Protocol):
    def start(self, told: Told) -> None: ...

    def write(self, pairs: Sequence[Pair]) -> None:
        """Returns when they are safe and this worker has been told of them."""

    def send(self, pairs: Sequence[Pair]) -> None:
        """Written soon, and told of then; a failure is logged."""

    def catch_up(self, timeout_s: float) -> bool:
        """Told of everything that was there when this was called?"""

    @property
    def replayed(self) -> bool:
        """Told of everything that was there when this was started?"""

    def close(self) -> None: ...


class MemoryLog:
    def __init__(self) -> None:
        self._told: Told = lambda key, value, number: None
        self._count = 0
        self._lock = threading.RLock()

    def start(self, told: Told) -> None:
        self._told = told

    def write(self, pairs: Sequence[Pair]) -> None:
        with self._lock:
            for key, value in pairs:
                number, self._count = self._count, self._count + 1
                self._told(key, value, number)

    def send(self, pairs: Sequence[Pair]) -> None:
        self.write(pairs)

    def catch_up(self, timeout_s: float) -> bool:
        return True

    @property
    def replayed(self) -> bool:
        return True

    def close(self) -> None:
        self._told = lambda key, value, number: None


class TopicLog:
    """`partitions`: the config topic has one, as the order of its records counts."""

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
        self._told: Told = lambda key, value, number: None
        self._producer: Producer[bytes, bytes] | None = None
        self._positions: dict[int, int] = {}
        self._moved = threading.Condition()
        self._replayed = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"ottla-{topic}", daemon=True)

    @property
    def replayed(self) -> bool:
        return self._replayed.is_set()

    def start(self, told: Told) -> None:
        self._told = told
        self._thread.start()

    def write(self, pairs: Sequence[Pair]) -> None:
        producer = self._sender()
        sent = [self._send(producer, *each) for each in pairs]
        ends: dict[int, int] = {}
        for each in sent:
            delivered = each.result(WRITE_S_MAX)
            ends[delivered.partition] = delivered.offset + 1
        if not self._wait(ends, WRITE_S_MAX):
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{self._topic} was written and can't be read"
            )

    def send(self, pairs: Sequence[Pair]) -> None:
        producer = self._sender()
        for key, value in pairs:
            self._send(producer, key, value).add_done_callback(self._tell_failure)

    def catch_up(self, timeout_s: float) -> bool:
        return self._wait(self._ends(), timeout_s)

    def close(self) -> None:
        self._stopping.set()
        with self._moved:
            self._moved.notify_all()
        if self._thread.ident is not None:
            self._thread.join()
        if self._producer is not None:
            try:
                self._producer.close(CLOSE_S_MAX)
            except KafkaError as error:
                log.warning("the last of %s could not be written: %s", self._topic, error)

    def _send(self, producer: Producer[bytes, bytes], key: str, value: Value) -> Sending:
        data = None if value is None else _dumps(value)
        return producer.send(self._topic, data, key=key.encode())

    def _sender(self) -> Producer[bytes, bytes]:
        with self._moved:
            if self._producer is None:
                settings = {"linger.ms": 0, **self._settings}
                self._producer = Producer(self._bootstrap_servers, settings=settings)
            return self._producer

    def _tell_failure(self, sending: Future[Delivered]) -> None:
        error = sending.exception()
        if error is not None:
            log.warning("%s could not be written: %s", self._topic, error)

    def _wait(self, ends: Mapping[int, int], timeout_s: float) -> bool:
        def reached() -> bool:
            return all(self._positions.get(part, 0) >= end for part, end in ends.items())

        with self._moved:
            self._moved.wait_for(lambda: reached() or self._stopping.is_set(), timeout_s)
            return reached()

    def _run(self) -> None:
        told = ""
        while not self._stopping.is_set():
            try:
                self._follow()
            except KafkaError as error:
                if str(error) != told:  # the same trouble every second is told of once
                    log.warning("%s can't be read, trying again: %s", self._topic, error)
                told = str(error)
                self._stopping.wait(RETRY_S)
            except Exception:  # who reads must not stop for one record
                log.exception("trouble with %s, trying again", self._topic)
                self._stopping.wait(RETRY_S)

    def _follow(self) -> None:
        self._make()
        ends = self._ends()
        starts = {TopicPartition(self._topic, part): self._positions.get(part, 0) for part in ends}
        began = heard = time.monotonic()
        settings = {"isolation.level": "read_committed", **self._settings}
        with Consumer[bytes, bytes](self._bootstrap_servers, settings=settings) as consumer:
            consumer.assign(starts)
            while not self._stopping.is_set():
                if not self.replayed and self._wait(ends, 0):
                    log.info("%s read in %.1f s", self._topic, time.monotonic() - began)
                    self._replayed.set()
                record = consumer.poll(POLL_S)
                if record is not None:
                    heard = time.monotonic()
                    self._take(record)
                elif not self.replayed and time.monotonic() - heard > SILENCE_S:
                    self._skip_what_is_gone(ends)

    def _take(self, record: Record[bytes, bytes]) -> None:
        try:
            key = (record.key or b"").decode()
            value = json.loads(record.value) if record.value is not None else None
            self._told(key, value, record.offset)
        except ValueError as error:
            log.warning("%s, offset %d is no JSON: %s", self._topic, record.offset, error)
        self._reach(record.partition, record.offset + 1)

    def _skip_what_is_gone(self, ends: Mapping[int, int]) -> None:
        """Compaction and markers of transactions may leave no record right before the end."""
        self._ends()  # the broker is there, and has nothing more to tell
        for part, end in ends.items():
            self._reach(part, max(end, self._positions.get(part, 0)))

    def _reach(self, partition: int, position: int) -> None:
        with self._moved:
            self._positions[partition] = position
            self._moved.notify_all()

    def _make(self) -> None:
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
            parts = [TopicPartition(self._topic, each.partition) for each in description.partitions]
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
