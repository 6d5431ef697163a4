"""SparkProvider: the Spark session of a process, started when it is first needed.

A session whose JVM has died, or which has ended by itself, is replaced by a new one; each user of
it has a session of its own beside it, made again whenever that happens.
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
    """Whoever calls it waits for Spark; `begin` starts it in the background."""

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
        """Why it could not be started, when it was last tried."""

    @property
    def state(self) -> str:
        if not self._tried.is_set():
            return "not started" if self._thread is None else "starting"
        return "failed" if self.trouble else "ready"

    def begin(self, when_done: Callable[[], None] | None = None) -> None:
        """Once; `when_done` is called when Spark is there, or has failed to be."""
        with self._beginning:
            self._when_done = when_done or self._when_done
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="ottla-spark", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        try:
            self._started()
        except Exception:  # no Java, no memory, no master: told wherever Spark is asked for
            log.exception("Spark did not start")
        self._when_done()

    def __call__(self) -> SparkSession:
        """StartError: it does not start."""
        if self._thread is not None:
            self._tried.wait()
        if self._given_up:
            raise StartError("Spark did not start: the server was stopped first")
        try:
            return self._started()
        except Exception as error:
            raise StartError(f"Spark did not start: {self.trouble}") from error

    def wait(self) -> str:
        """What kept it from starting, or nothing."""
        self.begin()
        self._tried.wait()
        return self.trouble

    def give_up(self) -> None:
        """Whoever waits need not: the process is being stopped."""
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
                log.error("Spark has ended; it starts again")
                self._session = None
            if self._session is None:
                log.info("Spark starts")
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
    """A session of our own: what is set there is nobody else's business. `prepare` makes it from
    the one that there is for all."""

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
        """Also makes it the one of this thread."""
        with self._lock:
            if self._session is None or not session.lives(self._session):
                self._session = self._prepare(self._spark())
            activate(self._session)
            return self._session

    def take(self) -> SparkSession | None:
        """Whoever takes it ends it."""
        with self._lock:
            taken, self._session = self._session, None
            return taken
