"""Where the Spark of a job runs: in its own JVM, on a Spark cluster, or in a Spark Connect server.

A cluster of this machine lasts for a run, and its executors are killed like local workers. A
Connect server belongs to a job, and is killed with its driver.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from delivery_spark_points import DIE, DRIVER, WEAK

from ottla.spark import session
from spark_daemons import SHORT_LIVED, connect_server, spark_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL, CLUSTER, CONNECT = PLACES = ("local", "cluster", "connect")
CORES = 4  # two for a job, and two for a zombie beside it
MEMORY = "2g"
OF_CLUSTERS = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.sql.shuffle.partitions": "3",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
}
# A job lives for seconds: its JVM needs neither an archive of classes nor the second compiler.
SURROUNDINGS = {
    "OTTLA_SPARK_ARCHIVE": "off",
    "OTTLA_SPARK_JAVA_OPTIONS": " ".join(SHORT_LIVED),
}
PASSED = (DIE, WEAK, "PYTHONPATH", "TMPDIR", "OTTLA_DIE_AT", "OTTLA_KEYED")
_servers = contextlib.ExitStack()


@dataclass(frozen=True, slots=True)
class Place:
    kind: str
    folder: Path
    url: str = ""

    def given(self, master: str, environment: Mapping[str, str]) -> dict[str, Any]:
        """The part of a job's arguments for `started` and `spark_settings`. Executors get what the
        job has in its environment."""
        connect = str(self.folder) if self.kind == CONNECT else ""
        if not self.url:
            return {"master": master, "settings": {}, "connect": connect}
        passed = {name: environment[name] for name in PASSED if name in environment}
        far = {f"spark.executorEnv.{name}": value for name, value in passed.items()}
        return {"master": self.url, "settings": {**OF_CLUSTERS, **far}, "connect": connect}

    def executors(self) -> list[int]:
        """Of a cluster, with their Python workers and task hosts; all are in its work folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*") if self.url else ():
            with contextlib.suppress(OSError):
                if (entry / "cwd").readlink().is_relative_to(self.folder / "work"):
                    found.append(int(entry.name))
        return sorted(found)


@contextlib.contextmanager
def place_in(folder: Path, kind: str) -> Iterator[Place]:
    assert kind in PLACES, kind
    folder.mkdir(parents=True)
    if kind != CLUSTER:
        yield Place(kind, folder)
        return
    with spark_cluster(folder, cores=CORES, memory=MEMORY) as url:
        yield Place(kind, folder, url)


def started(given: Mapping[str, Any], **settings: str) -> SparkSession:
    """The session of a job."""
    if given["connect"]:
        url = _servers.enter_context(connect_server(Path(given["connect"])))
        return session.start(remote=url)
    wanted = settings | spark_settings(given)
    return session.start(master=given["master"], heap="512m", settings=wanted)


def spark_settings(given: Mapping[str, Any]) -> dict[str, str]:
    """Workers need to know the driver's process, which they may have to kill."""
    return {**given["settings"], f"spark.executorEnv.{DRIVER}": str(os.getpid())}
