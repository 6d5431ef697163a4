"""ksqlDB's query validation cases as suites: through SqlTestDriver, and through Spark.

The driver needs no broker. Through Spark the run's broker serves the first lane of several. Without
a record cache each update counts, as in ksqlDB's own runner; with it, which is the default of a
server, Spark's own operators run the aggregates of streams and merge the updates of a batch.
"""

from __future__ import annotations

import json
import re
import sys

from suites.outcomes import Outcome, Outcomes
from suites.registry_server import RegistryNeed
from suites.sources import REPOSITORY, FilesCheckout
from suites.suite import HOUR_S, KnownFailure, Run, Step, Suite

MINUTE_S = 60
# Records of the cases are of 1970. A transaction's marker is of today, so that it begins a segment,
# and the cleaner would take updates of the one before within seconds.
BROKER = {"log.retention.ms": "-1", "log.cleaner.enable": "false"}
CASES = "ksqldb-functional-tests/src/test/resources/query-validation-tests"
MORE = "it is refused by ksqlDB, and done here: docs/sql.md, where it differs from ksqlDB"
FUNCTIONS = "docs/sql-functions.md, on Spark alone"
WINDOWED_KEYS = "windowed keys by two schemas have other bytes, and are not repartitioned"


def ksqldb(run: Run, left_out: dict[str, str]) -> list[Step]:
    command = [sys.executable, "-W", "ignore", "-m", "suites.ksqldb_cases", "--outcomes"]
    command += ["--only", run.tests] if run.tests else []
    environment = {"PYTHONPATH": str(REPOSITORY / "src")}
    command.append(str(run.home / "sources"))
    return [Step(command, REPOSITORY, read_outcomes, environment)]


def through_spark(run: Run, left_out: dict[str, str]) -> list[Step]:
    return [_on_spark(run)]


def spark_aggregates(run: Run, left_out: dict[str, str]) -> list[Step]:
    return [_on_spark(run, "--merged")]


def _on_spark(run: Run, *switches: str) -> Step:
    """`--tests` is a regular expression of names, or for example `sample 300 seed 16`."""
    command = [
        sys.executable, "-W", "ignore", "-m", "suites.ksqldb_spark", str(run.home / "sources"),
        "--bootstrap", run.addresses[0], "--registry", run.registry, "--folder", str(run.folder),
        *switches,
    ]  # fmt: skip
    sample = re.fullmatch(r"sample (\d+) seed (\d+)", run.tests or "")
    if sample is not None:
        command += ["--sample", sample[1], "--seed", sample[2]]
    elif run.tests:
        command += ["--only", run.tests]
    environment = {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"}
    return Step(command, REPOSITORY, read_outcomes, environment)


def read_outcomes(output: str) -> Outcomes:
    lines = (json.loads(line) for line in output.splitlines() if line.startswith("{"))
    return {line["case"]: Outcome(line["verdict"], line["reason"]) for line in lines}


KNOWN = (
    KnownFailure("fk-n-way-join - Should fail|joins - self join|- KAFKA$", MORE),
    KnownFailure("Should fail querying windowed table|windowed join with window bounds", MORE),
    KnownFailure("(greatest|least) - test implicit casting to long", MORE),
    KnownFailure("(average|correlation|stddev_samp|stddev_sample) - DELIMITED", MORE),
    KnownFailure("reduce map with double", "the order of entries in Java's HashMap"),
    KnownFailure("new planner", "a planner of ksqlDB that is off unless a property turns it on"),
    KnownFailure(
        "min date group by valid", "a date that Python does not have, 5.8 million years ago"
    ),
    KnownFailure("matching time-windowed - SR-enabled", WINDOWED_KEYS),
    KnownFailure(
        "protobuf - should not filter out bytes", "BYTES without value are empty, not NULL"
    ),
)

KSQLDB = Suite(
    name="ksqlDB cases",
    source=FilesCheckout("ksql", copied=(CASES,)),
    steps=ksqldb,
    brokers=(1,),
    known=(
        *KNOWN,
        KnownFailure(
            "field names incompatible with avro",
            "the driver's registry in memory takes any schema; a real one refuses this",
        ),
    ),
    limit_s=20 * MINUTE_S,
)

ON_SPARK = (
    *KNOWN,
    KnownFailure(
        "^headers - ",
        "a query on Spark's operators does not copy the headers of records: docs/sql.md, where it"
        " differs from ksqlDB",
    ),
    KnownFailure(
        "extract-json-field - array bounds", f"EXTRACTJSONFIELD reformats numbers: {FUNCTIONS}"
    ),
    KnownFailure(
        "filter - apply filter lambda function to int map",
        f"FILTER takes NULL for arithmetic with a NULL: {FUNCTIONS}",
    ),
    KnownFailure("math - ln", f"the last digits of LN may be others: {FUNCTIONS}"),
)

KSQLDB_SPARK = Suite(
    name="ksqlDB cases, Spark",
    source=KSQLDB.source,
    steps=through_spark,
    brokers=(1,),
    settings=BROKER,
    registry=RegistryNeed(),
    known=ON_SPARK,
    limit_s=3 * HOUR_S,
)

KSQLDB_AGGREGATES = Suite(
    name="ksqlDB cases, Spark aggregates",
    source=KSQLDB.source,
    steps=spark_aggregates,
    brokers=(1,),
    settings=BROKER,
    registry=RegistryNeed(),
    known=(
        *ON_SPARK,
        KnownFailure("stddev_(samp|sample) double", f"the last digits may be others: {FUNCTIONS}"),
        KnownFailure(
            "^suppress - ",
            "Kafka Streams loses the windows that a record both closes and lets expire, when time"
            " jumps by more than the retention; Spark emits them",
        ),
    ),
    limit_s=2 * HOUR_S,
)

SUITES = (KSQLDB, KSQLDB_SPARK, KSQLDB_AGGREGATES)
