"""Spark for the connectors of a worker: started when the first one needs it, and only once."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from ottla.spark import session
from ottla.spark.connect.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("ottla.connect")


class SparkOnce:
    """Whoever calls it waits for Spark. A session whose JVM has died is replaced by a new one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._session: SparkSession | None = None

    def __call__(self) -> SparkSession:
        with self._lock:
            if self._session is not None and not session.lives(self._session):
                log.error("Spark is gone; it is started again")
                self._session = None
            if self._session is None:
                self._session = self._start()
            return self._session

    def stop(self) -> None:
        with self._lock:
            if self._session is not None:
                self._session.stop()
                self._session = None

    def _start(self) -> SparkSession:
        settings = self._settings
        log.info("Spark is starting")
        started = session.start(
            master=settings.get("ottla.connect.spark.master"),
            remote=settings.get("ottla.connect.spark.remote") or None,
            app_name=f"ottla-connect-{settings.get('group.id')}",
            heap=settings.get("ottla.connect.spark.heap"),
            settings=settings.spark,
            java_options=session.FIRST_COMPILER,
        )
        log.info("Spark is ready")
        return started
