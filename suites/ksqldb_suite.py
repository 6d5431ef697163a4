"""ksqlDB's query validation cases as a suite. No broker serves them: SqlTestDriver has its own."""

from __future__ import annotations

import json
import sys

from suites.outcomes import Outcome, Outcomes
from suites.sources import REPOSITORY, FilesCheckout
from suites.suite import Known, Run, Step, Suite

MINUTE_S = 60
CASES = "ksqldb-functional-tests/src/test/resources/query-validation-tests"
MORE = "it is refused by ksqlDB, and done here: docs/sql.md, where it differs from ksqlDB"
WINDOWED_KEYS = "windowed keys by two schemas have other bytes, and are not repartitioned"


def ksqldb(run: Run, left_out: dict[str, str]) -> list[Step]:
    command = [sys.executable, "-W", "ignore", "-m", "suites.ksqldb_cases", "--outcomes"]
    command += ["--only", run.tests] if run.tests else []
    environment = {"PYTHONPATH": str(REPOSITORY / "src")}
    command.append(str(run.home / "sources"))
    return [Step(command, REPOSITORY, read_outcomes, environment)]


def read_outcomes(output: str) -> Outcomes:
    lines = (json.loads(each) for each in output.splitlines() if each.startswith("{"))
    return {each["case"]: Outcome(each["verdict"], each["reason"]) for each in lines}


KSQLDB = Suite(
    name="ksqlDB cases",
    source=FilesCheckout("ksql", copied=(CASES,)),
    steps=ksqldb,
    brokers=(1,),
    known=(
        Known("fk-n-way-join - Should fail|joins - self join|- KAFKA$", MORE),
        Known("Should fail querying windowed table|windowed join with window bounds", MORE),
        Known("(greatest|least) - test implicit casting to long", MORE),
        Known("(average|correlation|stddev_samp|stddev_sample) - DELIMITED", MORE),
        Known("field names incompatible with avro", MORE),
        Known("reduce map with double", "the order of entries in Java's HashMap"),
        Known("new planner", "a planner of ksqlDB that is off unless a property turns it on"),
        Known("min date group by valid", "a date that Python does not have, 5.8 million years ago"),
        Known("matching time-windowed - SR-enabled", WINDOWED_KEYS),
        Known("protobuf - should not filter out bytes", "BYTES without value are empty, not NULL"),
    ),
    limit_s=20 * MINUTE_S,
)
