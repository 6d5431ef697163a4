"""`make chaos minutes=N`: storms over a cluster, one seed after another, for so many minutes.

    python tests/chaos/storms.py --minutes 60 [--seed 7] [--seconds 40] [--case exactly_once]
        [--zookeepers 3] [--secured]
    python tests/chaos/storms.py --seed 7 --plan        what would be done, and when

Each line is a run, with its seed. A run that finds something keeps its directory: data, journals,
logs.
"""

from __future__ import annotations

import argparse
import itertools
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
ROOMS = (HERE, HERE.parent / "delivery", HERE.parent / "compat", HERE.parent.parent / "tools")
sys.path += map(str, ROOMS)

from chaos_checks import cluster_evidence, violations  # noqa: E402
from chaos_run import ClusterRun  # noqa: E402
from delivery_checks import summary  # noqa: E402
from delivery_reasons import reasons  # noqa: E402
from delivery_run import Case, seed_of_this_run  # noqa: E402

CASES = [
    Case("exactly_once", "classic", "cooperative-sticky"),
    Case("at_least_once", "consumer"),
    Case("exactly_once", "consumer"),
    Case("at_least_once", "classic", "range"),
]


def main() -> int:
    # Ended from outside, it ends what it has started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))
    given = arguments()
    cases = [case for case in CASES if given.case in str(case)]
    if not cases:
        print(f"no such case: {given.case}; there are {'; '.join(map(str, CASES))}")
        return 2
    first = seed_of_this_run() if given.seed is None else given.seed
    if given.plan:
        with tempfile.TemporaryDirectory() as place:
            run = ClusterRun(cases[0], first, given.seconds, Path(place), secured=given.secured)
            print(run.plan)
        return 0
    end = time.monotonic() + given.minutes * 60
    failures = 0
    for number, case in enumerate(itertools.cycle(cases)):
        if time.monotonic() > end:
            break
        failures += not one_run(case, first + number, given)
    print(f"{number} runs, {failures} with a finding", flush=True)
    return 1 if failures else 0


def one_run(case: Case, seed: int, given: argparse.Namespace) -> bool:
    """True if there was no violation."""
    directory = Path(tempfile.mkdtemp(prefix=f"chaos-{seed}-"))
    say = print if given.verbose else lambda text: None
    run = ClusterRun(
        case,
        seed,
        given.seconds,
        directory,
        say=say,
        zookeepers=given.zookeepers,
        secured=given.secured,
    )
    start = time.monotonic()
    try:
        history = run()
        broken = violations(history)
    except AssertionError as error:
        broken, history = [str(error)], run.history
    took_s = time.monotonic() - start
    print(f"{'FAILED' if broken else 'ok':6} OTTLA_SEED={seed} {case}, {took_s:.0f} s:", flush=True)
    print(f"       {summary(history)}; {dict(run.done)}", flush=True)
    print(f"       {cluster_evidence(history)}", flush=True)
    if history.given_up:
        print(f"       gave up: {dict(reasons(history))}", flush=True)
    healed = [healing.took_s for healing in history.healings]
    print(f"       healed in {healed} s", flush=True)
    if broken:
        print("\n".join(f"       {line}" for line in broken), flush=True)
        print(f"       everything is in {directory}", flush=True)
    else:
        shutil.rmtree(directory)
    return not broken


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="storms")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seconds", type=float, default=40, help="of storms in one run")
    parser.add_argument("--seed", type=int, help="of the first run; the next have the next")
    parser.add_argument("--case", default="", help="only those with this in their name")
    parser.add_argument("--zookeepers", type=int, default=1, help="servers of its ensemble")
    parser.add_argument("--secured", action="store_true", help="SASL_SSL, ACLs, new certificates")
    parser.add_argument("--plan", action="store_true", help="only print what a seed would do")
    parser.add_argument("--verbose", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
