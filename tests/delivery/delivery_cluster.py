"""A Spark cluster of this machine for a run, whose executors are killed like local workers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from delivery_spark_points import DIE, WEAK

from spark_daemons import SHORT_LIVED, spark_cluster

CORES = 4  # two for a job, and two for a zombie beside it
MEMORY = "2g"
SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
}
PASSED = (DIE, WEAK, "PYTHONPATH", "TMPDIR", "OTTLA_DIE_AT", "OTTLA_KEYED")


@dataclass(frozen=True, slots=True)
class Cluster:
    url: str
    folder: Path

    def settings(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Of a job: executors get what its own processes have in their environment."""
        passed = {name: environment[name] for name in PASSED if name in environment}
        return SETTINGS | {f"spark.executorEnv.{name}": value for name, value in passed.items()}

    def processes(self) -> list[int]:
        """The executors, their Python workers and task hosts; all work in the worker's folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(self.folder / "work"):
                    found.append(int(entry.name))
        return sorted(found)


@contextlib.contextmanager
def cluster_in(folder: Path, *, wanted: bool) -> Iterator[Cluster | None]:
    if not wanted:
        yield None
        return
    folder.mkdir()
    with spark_cluster(folder, cores=CORES, memory=MEMORY) as url:
        yield Cluster(url, folder)
