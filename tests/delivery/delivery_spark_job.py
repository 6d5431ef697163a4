"""The job under test, from one topic to another, in its own driver process.

Its arguments are one JSON object. It prints `batch N` for each completed batch, and exits when its
input ends, or with an error when the query fails.
"""

from __future__ import annotations

import json
import os
import sys
import time

from delivery_places import started
from delivery_spark_points import DRIVER, DyingDataSource


def main() -> int:
    given = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    spark = started(given, **{"spark.sql.shuffle.partitions": "3"})
    spark.dataSource.register(DyingDataSource)
    rows = (
        spark.readStream.format("ottla")
        .option("kafka.bootstrap.servers", given["servers"])
        .option("subscribe", given["source"])
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", given["at_once"])
        .load()
        .selectExpr("string(partition) as key", "value")
    )
    if given["shuffled"]:
        rows = rows.repartition(given["shuffled"])
    query = (
        rows.writeStream.format("ottla")
        .option("kafka.bootstrap.servers", given["servers"])
        .option("topic", given["target"])
        .option("ottla.delivery", given["delivery"])
        .option("checkpointLocation", given["checkpoint"])
        .start()
    )
    print("started", flush=True)
    last = -1
    while query.isActive:
        progress = query.lastProgress
        if progress is not None and progress["batchId"] != last:
            last = progress["batchId"]
            print("batch", last, flush=True)
        time.sleep(0.05)
    print(query.exception(), flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
