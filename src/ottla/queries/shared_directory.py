"""Checks that this machine and all machines of a Spark cluster share the state directory."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOKS: Final = 8
"""Spark tasks that check. They spread over the machines, but may miss some of many."""
SEEN_S_MAX: Final = 30.0
LOOK_S: Final = 0.1


def is_local(spark: SparkSession) -> bool:
    """True if Spark runs in one process on this machine. A Connect server may be anywhere."""
    context = getattr(spark, "_sc", None)
    return context is not None and str(context.master).startswith("local")


def executor_problem(spark: SparkSession, folder: Path) -> str:
    """Runs a Spark job to check that the executors, which keep the tasks' state there, see a file.
    Returns the problem and its remedy, or an empty string."""
    if is_local(spark):
        return ""
    hosts = blind_executors(spark, folder)
    return not_a_shared_directory(folder, f"{', '.join(hosts)} can't see it") if hosts else ""


def driver_problem(metadata: Path, folder: Path) -> str:
    """Checks that this machine sees the file that Spark's driver wrote when the query started."""
    deadline = time.monotonic() + SEEN_S_MAX  # a network disk may be slow to show it
    while not metadata.exists():
        if time.monotonic() > deadline:
            return not_a_shared_directory(
                folder, "this machine does not see what Spark's driver writes there"
            )
        time.sleep(LOOK_S)
    return ""


def blind_executors(spark: SparkSession, folder: Path) -> list[str]:
    """The machines whose executors do not see a file there."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".seen-{uuid.uuid4()}"
    mark.touch()
    try:
        rows = spark.range(0, LOOKS, 1, LOOKS).mapInArrow(_look(str(mark)), "host string")
        return sorted({row["host"] for row in rows.collect()})
    finally:
        mark.unlink(missing_ok=True)


def not_a_shared_directory(folder: Path, why: str) -> str:
    return (
        f"The state directory {folder} must be on a disk that this machine and all of Spark's"
        f" machines share at the same path (such as NFS): {why}. Set --state-dir to such a path"
    )


def _look(mark: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def look(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            blind = batch.num_rows and not Path(mark).exists()
            hosts = [socket.gethostname()] if blind else []
            yield pa.RecordBatch.from_pydict({"host": pa.array(hosts, pa.string())})

    return look
