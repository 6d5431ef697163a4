"""A Connect worker for the `connect` row: it is given connectors, one JSON line each, and answers.

python -m benchmarks.connect_load --port 9092

{"name": "n", "config": {...}}      starts it; {} when it runs
{"stop": "n"}                       stops it; {} when nothing of it runs
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

from ottla.spark import session
from ottla.spark.connect.run import runner
from ottla.spark.connect.run.states import State
from ottla.spark.connect.run.worker import Worker

START_S_MAX = 300.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", required=True)
    worker = Worker(
        {
            "bootstrap.servers": f"127.0.0.1:{parser.parse_args().port}",
            "group.id": "bench",
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        }
    )
    spark = session.start(master="local[2]", heap="2g")
    running: dict[str, runner.Running] = {}
    answer({})
    for line in sys.stdin:
        wish: dict[str, Any] = json.loads(line)
        if "stop" in wish:
            running.pop(wish["stop"]).stop()
        else:
            name = wish["name"]
            running[name] = runner.start(name, wish["config"], spark=lambda: spark, worker=worker)
            wait_until_it_runs(running[name])
        answer({})


def wait_until_it_runs(running: runner.Running) -> None:
    deadline = time.monotonic() + START_S_MAX
    while running.status.state is not State.RUNNING:
        if running.status.state is State.FAILED or time.monotonic() > deadline:
            raise SystemExit(f"{running.name} does not run: {running.status}")
        time.sleep(0.01)


def answer(data: dict[str, Any]) -> None:
    print(json.dumps(data), flush=True)


if __name__ == "__main__":
    main()
