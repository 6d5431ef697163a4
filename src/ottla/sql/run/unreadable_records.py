"""Unreadable records: follows the processing log, and logs and counts its records here."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.client import Consumer
from ottla.client.delivery import Setting
from ottla.errors import KafkaError
from ottla.spark.processing_log import Unreadable
from ottla.spark.rows import LOGGED_MAX, unreadable

if TYPE_CHECKING:
    from ottla.rows.formats import BadRecord

processing = logging.getLogger("ottla.processing")

KNOWN_MAX: Final = 10_000  # offsets of a topic that are remembered, to count each record once
LOOK_MS: Final = 3000  # how soon a topic that the first message has created is found
POLL_S: Final = 0.5
RETRY_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class UnreadableCount:
    """The count of one topic since the server's start."""

    count: int
    last: str


class UnreadableRecords:
    """Counts unreadable records by topic. A record that a table and a query read counts once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, set[tuple[int, int]]] = {}
        self._counts: dict[str, UnreadableCount] = {}
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def counts(self) -> dict[str, UnreadableCount]:
        """The counts by topic."""
        with self._lock:
            return dict(self._counts)

    def take(self, topic: str, bad: Sequence[BadRecord]) -> None:
        """Add records of a topic that is read in this process."""
        for record in bad:
            self._add(unreadable(topic, record))

    def follow(self, servers: str, settings: Mapping[str, Setting], topic: str) -> None:
        """Follow what Spark's workers write to the processing log from now on."""
        with self._lock:
            if self._thread is None:
                arguments = (servers, settings, topic)
                self._thread = threading.Thread(
                    target=self._follow, args=arguments, name="ottla-processing-log", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _add(self, found: Unreadable) -> None:
        with self._lock:
            known = self._known.setdefault(found.topic, set())
            position = (found.partition, found.offset)
            if position in known:
                return
            if len(known) < KNOWN_MAX:
                known.add(position)
            before = self._counts.get(found.topic)
            count = 1 if before is None else before.count + 1
            self._counts[found.topic] = UnreadableCount(count, str(found))
        if count <= LOGGED_MAX:
            processing.warning("%s", found)
        elif count % 1000 == 0:
            processing.warning("%d records of %s could not be deserialized", count, found.topic)

    def _follow(self, servers: str, settings: Mapping[str, Setting], topic: str) -> None:
        """Subscribe by a pattern, because the topic exists only after the first message."""
        since_ms = int(time.time() * 1000)
        given = {**settings, "topic.metadata.refresh.interval.ms": LOOK_MS}
        while not self._closing.is_set():
            try:
                pattern = re.compile(re.escape(topic))
                with Consumer(
                    servers, pattern, auto_offset_reset="earliest", settings=given
                ) as consumer:
                    self._read(consumer, since_ms)
            except KafkaError as error:
                processing.warning("Failed to read %s, retrying: %s", topic, error)
                self._closing.wait(RETRY_S)

    def _read(self, consumer: Consumer[bytes, bytes], since_ms: int) -> None:
        while not self._closing.is_set():
            record = consumer.poll(POLL_S)
            if record is None or record.value is None or record.timestamp_ms < since_ms:
                continue
            try:
                self._add(Unreadable.from_json(record.value))
            except (KeyError, TypeError, ValueError):
                continue  # another type of message, or of another program
