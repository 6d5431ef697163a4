"""`make chaos minutes=N`: connectors, or a SQL server, killed at random, one seed after another.

    python tests/delivery/chaos_connect.py --minutes 60 [--seed 7] [--lives 4] [--place cluster]
        [--connector lines | --sql]

Each line is a run, with its seed; `--place` is where Spark runs (delivery_places.py). A run that
finds something keeps its directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path += map(str, (HERE, HERE.parent, HERE.parent / "compat", HERE.parent.parent / "tools"))

from delivery_connect import ConnectRun, connector_of, lives, summary  # noqa: E402
from delivery_connect_subjects import SUBJECTS  # noqa: E402
from delivery_places import LOCAL, PLACES  # noqa: E402
from delivery_run import seed_of_this_run  # noqa: E402
from delivery_sql import SqlRun  # noqa: E402


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
    """True if every record was there as often as it should be."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-connect-{seed}-"))
    run = made_run(seed, given, directory)
    start = time.monotonic()
    try:
        wrong = run()
    except AssertionError as error:
        wrong = [str(error)]
    took_s = time.monotonic() - start
    print(f"{'FAILED' if wrong else 'ok':6} OTTLA_SEED={seed} {run.connector}, {took_s:.0f} s:")
    print(f"       {dict(summary(run))}", flush=True)
    if wrong:
        print("\n".join(f"       {line}" for line in [*map(str, run.plan), *wrong]), flush=True)
        print(f"       everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not wrong


def made_run(seed: int, given: argparse.Namespace, directory: Path) -> ConnectRun:
    more: dict[str, Any] = {"say": lambda text: None, "place": given.place}
    if given.sql:
        return SqlRun(seed, lives(seed, given.lives, zombies=True), directory, **more)
    connector = given.connector or connector_of(seed)
    plan = lives(seed, given.lives, sink=SUBJECTS[connector].sink, zombies=True)
    return ConnectRun(seed, plan, directory, connector, **more)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos_connect")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--lives", type=int, default=4, help="of the worker in one run")
    parser.add_argument("--connector", choices=sorted(SUBJECTS), help="instead of the seed's")
    parser.add_argument("--sql", action="store_true", help="a SQL server instead")
    parser.add_argument("--place", choices=PLACES, default=LOCAL, help="where Spark runs")
    parser.add_argument("--seed", type=int, help="of the first run; the next have the next")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
