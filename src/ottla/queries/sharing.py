"""On a cluster the state directory must be the same for all: this machine, and those of Spark."""

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
"""Tasks that look. They are spread over the machines: not each of many may be asked."""
SEEN_S_MAX: Final = 30.0
LOOK_S: Final = 0.1


def is_local(spark: SparkSession) -> bool:
    """All of Spark is in one process on this machine. A Connect server may be anywhere."""
    context = getattr(spark, "_sc", None)
    return context is not None and str(context.master).startswith("local")


def trouble_of_workers(spark: SparkSession, folder: Path) -> str:
    """Executors keep the state of tasks there: a job of Spark looks whether they see a file. What
    is wrong and what to do, or nothing."""
    if is_local(spark):
        return ""
    hosts = blind_workers(spark, folder)
    return not_shared(folder, f"{', '.join(hosts)} can't see it") if hosts else ""


def trouble_of_driver(metadata: Path, folder: Path) -> str:
    """Spark's driver has written this file, before a query runs; here it is read."""
    deadline = time.monotonic() + SEEN_S_MAX  # a network disk may be slow to show it
    while not metadata.exists():
        if time.monotonic() > deadline:
            return not_shared(folder, "what Spark's driver writes there is not seen here")
        time.sleep(LOOK_S)
    return ""


def blind_workers(spark: SparkSession, folder: Path) -> list[str]:
    """The names of the machines whose executors do not see a file there."""
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".seen-{uuid.uuid4()}"
    mark.touch()
    try:
        rows = spark.range(0, LOOKS, 1, LOOKS).mapInArrow(_look(str(mark)), "host string")
        return sorted({row["host"] for row in rows.collect()})
    finally:
        mark.unlink(missing_ok=True)


def not_shared(folder: Path, why: str) -> str:
    return (
        f"The state directory {folder} must be on a disk that this machine and all machines of"
        f" Spark share (NFS, for one), at the same path: {why}. Give such a place: --state-dir"
    )


def _look(mark: str) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def look(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            blind = batch.num_rows and not Path(mark).exists()
            hosts = [socket.gethostname()] if blind else []
            yield pa.RecordBatch.from_pydict({"host": pa.array(hosts, pa.string())})

    return look
