"""python -m suites.ksql --bootstrap HOST:PORT --registry URL --cases FOLDER [--server URL]

Runs ksqlDB's REST cases one after another, writes one line of JSON for each, and at the end how
many differ by which cause. Without --server it starts one.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from suites.ksql.rest_cases import read_cases
from suites.ksql.rest_run import Difference, OtherWords, Places, RestRun
from suites.ksql.sql_server import running_sql_server
from suites.ksql_suites import OTHER_WORDS

PASSED = "passed"


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that the server is stopped
    with ExitStack() as stack:
        server = options.server or stack.enter_context(
            running_sql_server(options.bootstrap, options.registry, options.folder)
        )
        causes = run_cases(RestRun(Places(options.bootstrap, options.registry, server)), options)
    for cause, count in causes.most_common():
        print(f"{count:5} {cause}")
    return 0 if set(causes) <= {PASSED, OTHER_WORDS} else 1


def run_cases(run: RestRun, options: argparse.Namespace) -> Counter[str]:
    """The number of cases by cause."""
    causes: Counter[str] = Counter()
    run.clean()
    for case in read_cases(options.cases):
        if options.tests and not re.search(options.tests, case.name):
            continue
        began = time.monotonic()
        reason = ""
        try:
            run.run(case)
        except OtherWords as difference:
            reason = f"{OTHER_WORDS}: {difference}"
        except Difference as difference:
            reason = str(difference)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
        run.clean()
        causes[cause_of(reason)] += 1
        verdict = "failed" if reason else "passed"
        if cause_of(reason) == OTHER_WORDS:
            verdict = "skipped"
        line = {"test": case.name, "verdict": verdict, "reason": reason,
                "took_s": round(time.monotonic() - began, 1)}  # fmt: skip
        print(json.dumps(line), flush=True)
    return causes


def cause_of(reason: str) -> str:
    """The kind of a difference: its text up to the first colon."""
    return reason.partition(":")[0] if reason else PASSED


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m suites.ksql", description=__doc__)
    made.add_argument("--bootstrap", required=True)
    made.add_argument("--registry", required=True)
    made.add_argument("--server", default="", help="URL of one that runs")
    made.add_argument("--folder", type=Path, default=Path(), help="for what a server keeps")
    made.add_argument("--cases", required=True, type=Path)
    made.add_argument("--tests", default="", help="a regular expression of names")
    return made


if __name__ == "__main__":
    sys.exit(main())
