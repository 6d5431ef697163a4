"""ksqlDB's query validation cases through Spark: `ksqldb_cases.py` runs them through the driver.

    python -m suites.ksqldb_spark CHECKOUT --bootstrap HOST:PORT --registry URL --folder FOLDER
        [--only REGEX] [--sample N] [--seed N] [--part 1/10] [--lanes N] [--merged]

Writes a line of JSON for each case. Lanes run cases side by side on one Spark; each has its own
broker, because the cases use the same names of topics. `--merged` runs the aggregates with the
record cache: Spark's own operators, which merge the updates of a batch. The last record of each key
is compared.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import queue
import random
import re
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.brokers import OTTLA, default_commands, start_broker
from benchmarks.processes import cpu_seconds

from ottla.spark import session
from suites.ksql.spark_lane import SparkLane
from suites.ksqldb_cases import Case, cases_in
from suites.ksqldb_suite import BROKER

LANES = 3
KINDS = (
    ("negative", None),
    ("join", re.compile(r"\bJOIN\b", re.IGNORECASE)),
    ("window", re.compile(r"\bWINDOW\s+(TUMBLING|HOPPING|SESSION)|WINDOWSTART", re.IGNORECASE)),
    ("group by", re.compile(r"\bGROUP\s+BY\b", re.IGNORECASE)),
)
AGGREGATES = ("group by", "window")


def kind_of(case: Case) -> str:
    """The stratum of a case in a sample."""
    if case.negative:
        return "negative"
    texts = "\n".join(case.body["statements"])
    for name, pattern in KINDS:
        if pattern is not None and pattern.search(texts):
            return name
    return "stateless"


def sampled(cases: Sequence[Case], count: int, seed: int) -> list[Case]:
    """`count` cases: of each file and kind as many as its share, chosen and ordered by the seed."""
    chance = random.Random(seed)
    strata: dict[tuple[str, str], list[Case]] = defaultdict(list)
    for case in cases:
        strata[case.name.split(" - ")[0], kind_of(case)].append(case)
    placed: list[tuple[float, Case]] = []
    for members in strata.values():
        chance.shuffle(members)
        # Evenly between 0 and 1: the first `count` of all have each stratum by its share.
        shift = chance.random()
        placed += [((n + shift) / len(members), case) for n, case in enumerate(members)]
    placed.sort(key=lambda item: item[0])
    return [case for _, case in placed[:count]]


@contextmanager
def lanes(options: argparse.Namespace) -> Iterator[list[SparkLane]]:
    with ExitStack() as stack:
        options.folder.mkdir(parents=True, exist_ok=True)
        spark = session.start(app_name="ksqldb-cases", log=options.folder / "spark.log")
        made = []
        for number in range(options.lanes):
            folder = options.folder / f"lane-{number}"
            bootstrap = options.bootstrap
            if number:
                broker = start_broker(
                    OTTLA, folder / "broker", default_commands(), overrides=BROKER
                )
                stack.callback(broker.remove)
                bootstrap = broker.bootstrap
            folder.mkdir(parents=True, exist_ok=True)
            made.append(
                SparkLane(
                    spark, bootstrap, options.registry, folder,
                    name=f"lane{number}", merged=options.merged,
                )
            )  # fmt: skip
        yield made


def main(arguments: Sequence[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that brokers are stopped
    logging.disable(logging.CRITICAL)
    cases = [
        case
        for case in cases_in(options.checkout)
        if (not options.only or re.search(options.only, case.name, re.IGNORECASE))
        and (not options.merged or kind_of(case) in AGGREGATES)
    ]
    if options.sample or options.part:
        cases = sampled(cases, options.sample or len(cases), options.seed)
    if options.part:
        number, of = map(int, options.part.split("/"))
        cases = cases[(number - 1) * len(cases) // of : number * len(cases) // of]
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    printing = threading.Lock()

    def work(lane: SparkLane) -> None:
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return
            began = time.monotonic()
            verdict = lane.judge(case)
            found = {**verdict.outcome(), "kind": kind_of(case)}
            found["took_s"] = round(time.monotonic() - began, 2)
            with printing:
                print(json.dumps(found), flush=True)

    with lanes(options) as made:
        began, cpu = time.monotonic(), cpu_seconds(os.getpid())
        threads = [threading.Thread(target=work, args=(lane,), daemon=True) for lane in made]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent, used = time.monotonic() - began, cpu_seconds(os.getpid()) - cpu
        print(
            f"{len(cases)} cases in {spent:.0f} s on {len(made)} lanes;"
            f" {used / max(len(cases), 1):.2f} CPU seconds a case"
        )
    return 0


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m suites.ksqldb_spark", description=__doc__)
    made.add_argument("checkout", type=Path)
    made.add_argument("--bootstrap", required=True)
    made.add_argument("--registry", required=True)
    made.add_argument("--folder", type=Path, required=True)
    made.add_argument("--only", default="", help="cases whose name has this regular expression")
    made.add_argument("--sample", type=int, default=0, help="so many of them; 0: all")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--part", default="", help="2/10: the second tenth, which is a sample, too")
    made.add_argument("--lanes", type=int, default=LANES)
    made.add_argument("--merged", action="store_true")
    return made


if __name__ == "__main__":
    sys.exit(main())
