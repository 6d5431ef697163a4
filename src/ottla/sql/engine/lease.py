"""Which of several servers with one service id runs the queries: the one that holds the lease.

The lease is partition 0 of the command topic in a consumer group: the group's coordinator gives it
to one member, takes it from one that is not heard of any more, and gives it to the next. A server
that is stopped leaves the group, and the next one has it at once.
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
"""Who waits for the lease asks so often whether the coordinator is there, and waits so long."""

ANOTHER: Final = "another server of this service runs it"
ASKING: Final = "the broker is being asked which server of this service runs it"

log = logging.getLogger("ottla.sql")


class Lease:
    """Asks for the lease in a thread of its own; `changed` is called there when it comes and goes.

    `changed(False)` returns when nothing runs here any more: only then the lease is given up.
    `prepare` sees to it that the topic is there.
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
    ) -> None:
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._group = group
        self._changed = changed
        self._prepare = prepare
        self._settings = dict(settings or {})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ottla-sql-lease", daemon=True)
        self.held = False
        self.asked = False
        """The coordinator has said whose it is, or at least has had the time to."""
        self.cause = ""
        """Why this server does not have it."""

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
            log.info("this server %s the queries", "runs" if held else "does not run")
            self._changed(held)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._hold()
            except Exception as error:  # without this thread no query would ever run again
                self.cause = self._away(error)
                log.warning("asking for the lease again: %s", error, exc_info=_surprise(error))
                self._stopping.wait(RETRY_S)
            finally:
                self._set(False)

    def _hold(self) -> None:
        self._prepare()
        began = time.monotonic()
        settings = {
            "session.timeout.ms": SESSION_MS,
            "partition.assignment.strategy": "cooperative-sticky",  # who has it keeps it
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
                consumer.poll(POLL_S)  # its records are nothing to us: reading keeps the lease
                self.asked = self.held or time.monotonic() - began > SESSION_MS / 1000
                if self.held:
                    ask_at = there_at = time.monotonic() + ASK_S
                elif time.monotonic() >= ask_at:
                    trouble = self._trouble(consumer)
                    ask_at = time.monotonic() + ASK_S
                    if trouble:
                        there_at = ask_at
                    given = time.monotonic() - there_at > SESSION_MS / 1000
                    self.cause = trouble or (ANOTHER if given else ASKING)

    def _trouble(self, consumer: Consumer[bytes, bytes]) -> str:
        """Why nobody is there who could give it to us, if so."""
        try:
            consumer.committed([TopicPartition(self._topic, 0)], ASK_S_MAX)
        except KafkaError as error:
            return self._away(error)
        return ""

    def _away(self, error: Exception) -> str:
        """That nobody answers in time says nothing more of the reason."""
        timed_out = isinstance(error, KafkaError) and error.code is ErrorCode.REQUEST_TIMED_OUT
        reason = "" if timed_out else f" ({error})"
        return f"no broker answers at {self._bootstrap_servers}{reason}; it goes on when one does"


def _surprise(error: Exception) -> Exception | None:
    """What nobody has thought of is told with its stack."""
    return None if isinstance(error, KafkaError) else error
