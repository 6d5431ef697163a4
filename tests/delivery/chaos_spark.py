"""`make chaos minutes=N`: Spark jobs killed at random, one seed after another, for so many minutes.

    python tests/delivery/chaos_spark.py --minutes 60 [--seed 7] [--lives 8] [--streams]
        [--place cluster]

Each line is a run, with its seed. The broker is killed too, and jobs are stopped and go on as
zombies. With --streams the job is an application with state; `--place` runs it on a Spark cluster
or in a Spark Connect server (delivery_places.py). A run that finds something keeps its directory:
data, checkpoint, logs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path += map(str, (HERE, HERE.parent, HERE.parent / "compat", HERE.parent.parent / "tools"))

from delivery_places import LOCAL, PLACES  # noqa: E402
from delivery_run import seed_of_this_run  # noqa: E402
from delivery_spark import SparkRun, lives, summary  # noqa: E402
from delivery_streams import StreamsRun, stream_lives  # noqa: E402


def main() -> int:
    given = arguments()
    first = seed_of_this_run() if given.seed is None else given.seed
    end = time.monotonic() + given.minutes * 60
    number = failures = 0
    while time.monotonic() < end:
        failures += not one_run(first + number, given)
        number += 1
    print(f"{number} runs, {failures} with a finding", flush=True)
    return 1 if failures else 0


def one_run(seed: int, given: argparse.Namespace) -> bool:
    """True if every record was there once."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-spark-{seed}-"))
    planned, kind = (stream_lives, StreamsRun) if given.streams else (lives, SparkRun)
    plan = planned(seed, given.lives, brokers=True, zombies=True)
    run = kind(seed, plan, directory, say=lambda text: None, place=given.place)
    start = time.monotonic()
    try:
        wrong = run()
    except AssertionError as error:
        wrong = [str(error)]
    took_s = time.monotonic() - start
    what = "streams" if given.streams else "spark"
    print(f"{'FAILED' if wrong else 'ok':6} OTTLA_SEED={seed} {what}, {took_s:.0f} s:", flush=True)
    print(f"       {dict(summary(run))}", flush=True)
    if wrong:
        print("\n".join(f"       {line}" for line in [*map(str, plan), *wrong]), flush=True)
        print(f"       everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos_spark")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--lives", type=int, default=6, help="of the job in one run")
    parser.add_argument("--streams", action="store_true", help="an application with state")
    parser.add_argument("--place", choices=PLACES, default=LOCAL, help="where Spark runs")
    parser.add_argument("--seed", type=int, help="of the first run; the next have the next")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
