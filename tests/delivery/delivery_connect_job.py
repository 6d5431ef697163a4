"""A process that runs one source connector until it is killed.

Its arguments are one JSON object. It prints `state ...` with every change.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from delivery_places import started
from delivery_spark_points import DRIVER, DyingDataSource

from ottla.connect.run import connector_runner
from ottla.connect.run.worker_context import WorkerContext
from ottla.spark import source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    given = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    source.register = register_dying
    connector_runner.start_connector(
        given["name"],
        given["config"],
        spark=lambda: started(given),
        worker=WorkerContext(given["worker"]),
        on_state=lambda status: print("state", status, flush=True),
    )
    while True:
        time.sleep(60)


def register_dying(spark: SparkSession) -> None:
    """format("ottla") with a sink that dies at the point named in the environment."""
    spark.dataSource.register(DyingDataSource)


if __name__ == "__main__":
    main()
