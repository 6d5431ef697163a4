"""SparkProvider: the Spark session of a process, started on first use.

A session whose JVM has died, or that has stopped, is replaced by a new one. Each user derives a
separate session from it (OwnSession), and derives it again after a replacement.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.queries.launcher import activate
from ottla.spark import session
from ottla.spark.java import StartError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.queries")


class SparkProvider:
    """Calling it waits for Spark; `begin` starts Spark in the background."""

    def __init__(self, start: Callable[[], SparkSession]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._beginning = threading.Lock()
        self._thread: threading.Thread | None = None
        self._when_done: Callable[[], None] = lambda: None
        self._given_up = False
        self._tried = threading.Event()
        self._session: SparkSession | None = None
        self.trouble = ""
        """Why the last start failed; empty if it did not."""

    @property
    def state(self) -> str:
        if not self._tried.is_set():
            return "not started" if self._thread is None else "starting"
        return "failed" if self.trouble else "ready"

    def begin(self, when_done: Callable[[], None] | None = None) -> None:
        """Starts Spark once; `when_done` is called when it is ready or has failed."""
        with self._beginning:
            self._when_done = when_done or self._when_done
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ottla-spark", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            self._started()
        except Exception:  # no Java, memory or master: callers of Spark raise it, too
            log.exception("Failed to start Spark")
        self._when_done()

    def __call__(self) -> SparkSession:
        """Raises StartError if Spark does not start."""
        if self._thread is not None:
            self._tried.wait()
        if self._given_up:
            raise StartError("Spark did not start: the server was stopped first")
        try:
            return self._started()
        except Exception as error:
            raise StartError(f"Spark did not start: {self.trouble}") from error

    def wait(self) -> str:
        """Why Spark did not start, or an empty string."""
        self.begin()
        self._tried.wait()
        return self.trouble

    def give_up(self) -> None:
        """Releases all waiting callers, because the process is stopping."""
        if not self._tried.is_set():
            self.trouble = "the server was stopped first"
            self._given_up = True
            self._tried.set()

    def stop(self) -> None:
        with self._lock:
            stopped, self._session = self._session, None
        if stopped is not None:
            stopped.stop()

    def _started(self) -> SparkSession:
        with self._lock:
            if self._session is not None and not session.lives(self._session):
                log.error("Spark has stopped; restarting it")
                self._session = None
            if self._session is None:
                log.info("Starting Spark")
                try:
                    self._session = self._start()
                    self.trouble = ""
                    log.info("Spark is ready")
                except Exception as error:
                    self.trouble = str(error) or type(error).__name__
                    raise
                finally:
                    self._tried.set()
            return self._session


class OwnSession:
    """A separate session, whose settings do not affect others. `prepare` derives it from the
    process's session."""

    def __init__(
        self,
        spark: Callable[[], SparkSession],
        prepare: Callable[[SparkSession], SparkSession],
    ) -> None:
        self._spark = spark
        self._prepare = prepare
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def get(self) -> SparkSession:
        """The session, made active in this thread."""
        with self._lock:
            if self._session is None or not session.lives(self._session):
                self._session = self._prepare(self._spark())
            activate(self._session)
            return self._session

    def take(self) -> SparkSession | None:
        """Hands the session over; the caller stops it."""
        with self._lock:
            taken, self._session = self._session, None
            return taken
