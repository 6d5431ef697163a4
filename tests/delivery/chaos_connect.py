"""`make chaos minutes=N`: connectors killed at random, one seed after another.

    python tests/delivery/chaos_connect.py --minutes 60 [--seed 7] [--lives 4] [--connector lines]

Each line is a run, with its seed. A run that finds something keeps its directory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path += map(str, (HERE, HERE.parent / "compat", HERE.parent.parent / "tools"))

from delivery_connect import ConnectRun, connector_of, lives, summary  # noqa: E402
from delivery_connect_subjects import SUBJECTS  # noqa: E402
from delivery_run import seed_of_this_run  # noqa: E402


def main() -> int:
    given = arguments()
    first = seed_of_this_run() if given.seed is None else given.seed
    end = time.monotonic() + given.minutes * 60
    number = failures = 0
    while time.monotonic() < end:
        failures += not one_run(first + number, given.lives, given.connector)
        number += 1
    print(f"{number} runs, {failures} with a finding", flush=True)
    return 1 if failures else 0


def one_run(seed: int, count: int, named: str | None) -> bool:
    """True if every record was there as often as it should be."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-connect-{seed}-"))
    connector = named or connector_of(seed)
    plan = lives(seed, count, sink=SUBJECTS[connector].sink, zombies=True)
    run = ConnectRun(seed, plan, directory, connector, say=lambda text: None)
    start = time.monotonic()
    try:
        wrong = run()
    except AssertionError as error:
        wrong = [str(error)]
    took_s = time.monotonic() - start
    print(
        f"{'FAILED' if wrong else 'ok':6} OTTLA_SEED={seed} connect, {connector}, {took_s:.0f} s:"
    )
    print(f"       {dict(summary(run))}", flush=True)
    if wrong:
        print("\n".join(f"       {line}" for line in [*map(str, run.plan), *wrong]), flush=True)
        print(f"       everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not wrong


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos_connect")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--lives", type=int, default=4, help="of the worker in one run")
    parser.add_argument("--connector", choices=sorted(SUBJECTS), help="instead of the seed's")
    parser.add_argument("--seed", type=int, help="of the first run; the next have the next")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
