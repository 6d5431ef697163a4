"""A worker that runs one source connector, in a process of its own, until it is killed.

Its arguments are one JSON object. It says `state ...` with every change.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

from delivery_spark_points import DRIVER, Dying

from ottla.connect.run import runner
from ottla.connect.run.worker import Worker
from ottla.spark import session, source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def main() -> None:
    given = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    source.register = register_dying
    runner.start(
        given["name"],
        given["config"],
        spark=lambda: session.start(master=given["master"], heap="512m"),
        worker=Worker(given["worker"]),
        on_state=lambda status: print("state", status, flush=True),
    )
    while True:
        time.sleep(60)


def register_dying(spark: SparkSession) -> None:
    """format("ottla") whose sink dies at the point that the environment names."""
    spark.dataSource.register(Dying)


if __name__ == "__main__":
    main()
