"""python -m suites [--only NAME,...] [--brokers N] [--peer kafka] [--tests WHICH] [--write-docs]"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from suites import report, runner
from suites.brokers import KAFKA, KINDS, OTTLA
from suites.catalogue import SUITES
from suites.sources import REPOSITORY, MissingError, kafka_jars
from suites.suite import Suite
from suites.verdicts import RunResult, with_reasons

# Part of the repository, as the table in the docs is: a checkout that runs one suite has the rows
# of the others from here.
RESULTS = REPOSITORY / "suites" / "results.json"
DOCS = REPOSITORY / "docs" / "compatibility.md"
CLUSTER_MIN = 2


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    console = Console(highlight=False)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that brokers are stopped
    chosen = [suite for suite in SUITES if not options.only or is_named(suite, options.only)]
    if not chosen:
        console.print(f"no such suite: {options.only}")
        return 2
    if options.list:
        for suite in chosen:
            sizes = ", ".join(map(str, suite.brokers))
            console.print(
                f"{suite.name:42} brokers {sizes:5} {suite.source.where()}", soft_wrap=True
            )
        if options.write_docs:
            report.write_docs(DOCS, in_order(report.kept_results(RESULTS)), SUITES)
        return 0
    checkouts = Path(os.environ["SUITE_SOURCES"]) if os.environ.get("SUITE_SOURCES") else None
    if options.prepare:
        return prepare_all(chosen, checkouts, console)
    if options.peer == KAFKA:
        kafka_jars()
    results = run_all(chosen, options, checkouts, console)
    if results:
        report.print_table(console, results)
    if options.write_docs:
        report.write_docs(DOCS, in_order(report.kept_results(RESULTS)), SUITES)
    return 0 if all(result.is_good for result in results) else 1


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m suites", description=__doc__)
    made.add_argument("--only", metavar="NAME,...", help="suites by name, or whose names begin so")
    made.add_argument("--brokers", type=int, help="only on one (1) or only on clusters (3)")
    made.add_argument("--peer", choices=KINDS, default=OTTLA, help="whose brokers")
    made.add_argument("--tests", help="only these tests, as the suite itself selects them")
    made.add_argument("--prepare", action="store_true", help="install what is needed, and end")
    made.add_argument("--list", action="store_true", help="show the suites, and end")
    made.add_argument(
        "--write-docs",
        action="store_true",
        help="write the last results into the docs; with --list, run nothing",
    )
    return made


def is_named(suite: Suite, only: str) -> bool:
    """A suite by its name, or by a prefix if no suite has that name."""
    for name in re.split(r",(?! )", only):  # a comma with a space is part of a name
        whole = any(name == other.name for other in SUITES)
        if suite.name == name if whole else suite.name.startswith(name):
            return True
    return False


def sizes_of(suite: Suite, wanted: int | None) -> list[int]:
    """A suite that assumes five brokers runs on five if --brokers asks for a cluster."""
    if wanted is None:
        return list(suite.brokers)
    return [size for size in suite.brokers if (size >= CLUSTER_MIN) == (wanted >= CLUSTER_MIN)]


def run_all(
    chosen: Sequence[Suite], options: argparse.Namespace, checkouts: Path | None, console: Console
) -> list[RunResult]:
    began = time.monotonic()

    def say(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        console.print(f"{minutes:3}:{seconds:02} {text}", soft_wrap=True, markup=False)

    results = []
    for suite in chosen:
        for count in sizes_of(suite, options.brokers):
            result = runner.run_suite(
                suite, count, options.peer, checkouts=checkouts, tests=options.tests, say=say
            )
            for line in report.notes(result):
                say(line)
            results.append(result)
            if options.peer == OTTLA and not options.tests:  # a part of a suite is not its result
                report.keep(RESULTS, result)
    return results


def prepare_all(chosen: Sequence[Suite], checkouts: Path | None, console: Console) -> int:
    code = 0
    for suite in chosen:
        console.print(f"{suite.name}: preparing")
        try:
            runner.prepare(suite, checkouts)
        except MissingError as missing:
            console.print(f"{suite.name}: {missing}", markup=False)
            code = 1
    return code


def in_order(results: Sequence[RunResult]) -> list[RunResult]:
    """The stored results of Ottla, in the catalogue's order and with its present reasons."""
    by_name = {suite.name: suite for suite in SUITES}
    places = {
        (suite.name, count): (place, count)
        for place, suite in enumerate(SUITES)
        for count in suite.brokers
    }
    ours = [
        with_reasons(result, by_name[result.suite].known)
        for result in results
        if result.peer == OTTLA and (result.suite, result.brokers) in places
    ]
    return sorted(ours, key=lambda result: places[result.suite, result.brokers])


if __name__ == "__main__":
    sys.exit(main())
