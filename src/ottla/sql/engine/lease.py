"""The lease: of several servers with one service id, its holder runs the queries.

The lease is the assignment of partition 0 of the command topic in a consumer group. The group
coordinator assigns it to one member, and to another one when that member's session times out. A
server that stops leaves the group, so that the next one gets the lease at once.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from ottla.client import Consumer, TopicPartition
from ottla.client.delivery import Setting
from ottla.errors import ErrorCode, KafkaError

SESSION_MS: Final = 10_000
POLL_S: Final = 0.5
RETRY_S: Final = 2.0
ASK_S: Final = 2.0
ASK_S_MAX: Final = 1.0
"""Interval and timeout of the checks whether the coordinator is available."""

ANOTHER: Final = "another server of this service runs it"
ASKING: Final = "waiting for the broker to say which server of this service runs it"

log = logging.getLogger("ottla.sql")


class Lease:
    """A group member on its own thread, which calls `changed` when the lease is gained or lost.

    `changed(False)` returns when no query runs here any more; only then is the lease given up.
    `prepare` creates the topic.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        topic: str,
        group: str,
        changed: Callable[[bool], None],
        prepare: Callable[[], object] = lambda: None,
        settings: Mapping[str, Setting] | None = None,
        session_ms: int = SESSION_MS,
        retry_s: float = RETRY_S,
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._group = group
        self._changed = changed
        self._prepare = prepare
        self._settings = dict(settings or {})
        self._session_ms = session_ms
        self._retry_s = retry_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-sql-lease", daemon=True)
        self.held = False
        self.asked = False
        """The coordinator has assigned the lease, or has had enough time to."""
        self.cause = ""
        """Why this server does not hold the lease."""

    @property
    def started(self) -> bool:
        return self._thread.ident is not None

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stopping.set()
        if self.started:
            self._thread.join()

    # As a listener of the consumer, on its thread

    def on_assigned(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._set(True)

    def on_revoked(self, partitions: list[TopicPartition]) -> None:
        if partitions:
            self._set(False)

    def on_lost(self, partitions: list[TopicPartition]) -> None:
        self.on_revoked(partitions)

    def _set(self, held: bool) -> None:
        if held != self.held:
            self.held = held
            self.cause = "" if held else ASKING
            log.info(
                "This server %s the lease of the queries", "holds" if held else "does not hold"
            )
            self._changed(held)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._hold()
            except (
                Exception
            ) as error:  # without this thread this server would never run a query again
                self.cause = self._away(error)
                log.warning(
                    "Failed to hold the lease, retrying: %s", error, exc_info=_surprise(error)
                )
                self._stopping.wait(self._retry_s)
            finally:
                self._set(False)

    def _hold(self) -> None:
        self._prepare()
        began = time.monotonic()
        settings = {
            "session.timeout.ms": self._session_ms,
            # the holder keeps it when others join
            "partition.assignment.strategy": "cooperative-sticky",
            **self._settings,
        }
        with Consumer(
            self._bootstrap_servers,
            [self._topic],
            group=self._group,
            listener=self,
            settings=settings,
        ) as consumer:
            ask_at = there_at = began + ASK_S
            while not self._stopping.is_set():
                consumer.poll(POLL_S)  # ignore the records: polling keeps the membership
                self.asked = self.held or time.monotonic() - began > self._session_ms / 1000
                if self.held:
                    ask_at = there_at = time.monotonic() + ASK_S
                elif time.monotonic() >= ask_at:
                    trouble = self._trouble(consumer)
                    ask_at = time.monotonic() + ASK_S
                    if trouble:
                        there_at = ask_at
                    given = time.monotonic() - there_at > self._session_ms / 1000
                    self.cause = trouble or (ANOTHER if given else ASKING)

    def _trouble(self, consumer: Consumer[bytes, bytes]) -> str:
        """Why no coordinator is available; empty if one is."""
        try:
            consumer.committed([TopicPartition(self._topic, 0)], ASK_S_MAX)
        except KafkaError as error:
            return self._away(error)
        return ""

    def _away(self, error: Exception) -> str:
        """The cause to show. A timeout adds nothing to it."""
        timed_out = isinstance(error, KafkaError) and error.code is ErrorCode.REQUEST_TIMED_OUT
        reason = "" if timed_out else f" ({error})"
        return f"no broker is available at {self._bootstrap_servers}{reason}; retrying"


def _surprise(error: Exception) -> Exception | None:
    """The error, if it is unexpected and needs a stack trace in the log."""
    return None if isinstance(error, KafkaError) else error
