"""The Streams application under test, in its own driver process.

Records `<life>:<number>` are counted by life, behind a shuffle; each count is written as
`<life>:<count - 1>`. So the target equals the source if every record has counted once and no count
was lost or duplicated.

Its arguments are those of delivery_spark_job.py. In the environment: with OTTLA_DIE_AT="n file" the
first task host that has counted n records dies; OTTLA_KEYED means that records have their life as
their key, so that there is no shuffle.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from delivery_places import started
from delivery_spark_points import DRIVER, DyingDataSource, is_first

from ottla.spark import source
from ottla.streams import String, Topology
from ottla.streams.run.application import Application, ApplicationState

DIE_AT = "OTTLA_DIE_AT"
KEYED = "OTTLA_KEYED"
counted = 0


def count(life: str, text: str, before: str) -> str:
    global counted
    counted += 1
    at, _, once = os.environ.get(DIE_AT, "0").partition(" ")
    if counted == int(at) and is_first(once):
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{life}:{int(before.rpartition(':')[2] or -1) + 1}"


def topology() -> Topology:
    made = Topology(key=String(), value=String())
    records = made.stream("source")
    if KEYED in os.environ:
        by_life = records.group_by_key()
    else:
        by_life = records.group_by(lambda text: text.partition(":")[0], key=String())
    counts = by_life.aggregate(str, count, store="counts", value=String())
    counts.to_stream().to("target")
    return made


def main() -> int:
    given = json.loads(sys.argv[1])
    os.environ[DRIVER] = str(os.getpid())
    source.register = lambda spark: spark.dataSource.register(DyingDataSource)
    exactly = given["delivery"] == "exactly_once"
    application = Application(
        topology(),
        application_id="proved",
        bootstrap_servers=given["servers"],
        state_dir=Path(given["checkpoint"]),
        spark=lambda: started(given),
        config={
            "statestore.cache.max.bytes": 0,
            "max.poll.records": given["at_once"],
            "processing.guarantee": "exactly_once_v2" if exactly else "at_least_once",
        },
    )
    application.start()
    print("started", flush=True)
    last = -1
    while application.state not in (ApplicationState.ERROR, ApplicationState.NOT_RUNNING):
        for metric in application.metrics().values():
            if metric.batch != last:
                last = metric.batch
                print("batch", last, flush=True)
        time.sleep(0.05)
    print(application.error, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
