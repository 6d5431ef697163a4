"""The Spark queries of one SQL engine, seen from outside: when they have processed all records.

All sessions of a process share the list of running queries in the JVM. A query belongs to the
engine whose state directory has its checkpoint.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HANGS_S: Final = 300.0


class SparkQueries:
    def __init__(self, spark: SparkSession, state_dir: Path) -> None:
        self._spark = spark
        self._folder = str(state_dir)

    def running(self) -> list[Any]:
        shared: Any = self._spark._jsparkSession.sharedState()  # type: ignore[attr-defined]
        running = list(shared.activeStreamingQueries().values())
        return [
            query
            for query in running
            # None: another lane's, which has ended between the list of ids and this.
            if query is not None and self._folder in str(query.resolvedCheckpointRoot())
        ]

    def process_all_available(self) -> None:
        """Wait until each has read what its topics had at the time of the call.

        Twice, because a trigger that began before the call ends the first wait. Without the timer
        a query that hangs would stop the whole run.
        """
        for query in self.running():
            timer = threading.Timer(HANGS_S, query.stop)
            timer.daemon = True
            timer.start()
            try:
                query.processAllAvailable()
                query.processAllAvailable()
            finally:
                timer.cancel()
