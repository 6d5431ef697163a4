"""`make chaos minutes=N`: the delivery tests, one seed after another, for so many minutes.

    python tests/delivery/chaos.py --minutes 60 [--seed 7] [--seconds 30] [--case exactly_once]

Each line is a run, with its seed. A run that finds something keeps its directory:
data, journals, logs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
sys.path += map(str, (HERE, HERE.parent / "compat", HERE.parent.parent / "tools"))

from delivery_checks import summary, violations  # noqa: E402
from delivery_reasons import reasons  # noqa: E402
from delivery_run import Case, Run, seed_of_this_run  # noqa: E402

CASES = [
    Case("exactly_once", "classic", "cooperative-sticky"),
    Case("at_least_once", "consumer"),
    Case("exactly_once", "consumer"),
    Case("at_most_once", "classic", "range"),
    Case("exactly_once", "classic", "range"),
    Case("at_least_once", "classic", "cooperative-sticky"),
    Case("at_most_once", "consumer"),
]


def main() -> int:
    given = arguments()
    cases = [case for case in CASES if given.case in str(case)]
    first = seed_of_this_run() if given.seed is None else given.seed
    end = time.monotonic() + given.minutes * 60
    failures = 0
    for number, case in enumerate(itertools.cycle(cases)):
        if time.monotonic() > end:
            break
        failures += not one_run(case, first + number, given.seconds)
    print(f"{number} runs, {failures} with a finding", flush=True)
    return 1 if failures else 0


def one_run(case: Case, seed: int, seconds: float) -> bool:
    """True if there was no violation."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    run = Run(case, seed, seconds, directory, say=lambda text: None)
    start = time.monotonic()
    try:
        history = run()
        broken = violations(history)
    except AssertionError as error:
        broken, history = [str(error)], run.history
    took_s = time.monotonic() - start
    print(f"{'FAILED' if broken else 'ok':6} OTTLA_SEED={seed} {case}, {took_s:.0f} s:", flush=True)
    print(f"       {summary(history)}; {dict(run.done)}", flush=True)
    if history.given_up:
        print(f"       gave up: {dict(reasons(history))}", flush=True)
    if broken:
        print("\n".join(f"       {line}" for line in broken), flush=True)
        print(f"       everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not broken


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="chaos")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=30, help="of faults in one run")
    parser.add_argument("--seed", type=int, help="of the first run; the next have the next")
    parser.add_argument("--case", default="", help="only those with this in their name")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
