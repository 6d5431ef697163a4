"""The suite of ksqlDB's REST cases. `catalogue.py` has the others."""

from __future__ import annotations

import json
import sys

from suites.outcomes import Outcome, Outcomes
from suites.registry_server import RegistryNeed
from suites.sources import REPOSITORY, FilesCheckout
from suites.suite import HOUR_S, KnownFailure, Run, Step, Suite

CASES = "ksqldb-functional-tests/src/test/resources/rest-query-validation-tests"
OTHER_WORDS = "refused, in other words"

ANSWERED = "ksqlDB refuses what is answered here: docs/sql.md, where it differs from ksqlDB"


def rest_cases(run: Run, left_out: dict[str, str]) -> list[Step]:
    command = [
        sys.executable, "-m", "suites.ksql", "--bootstrap", run.addresses[0],
        "--registry", run.registry, "--cases", str(run.home / "sources" / CASES),
        "--folder", str(run.folder),
    ]  # fmt: skip
    if run.tests:
        command += ["--tests", run.tests]
    environment = {"PYTHONPATH": f"{REPOSITORY}:{REPOSITORY / 'src'}"}
    return [Step(command, REPOSITORY, read_cases, environment)]


def read_cases(output: str) -> Outcomes:
    """One line of JSON per case. Another error message does not count as a difference."""
    outcomes: Outcomes = {}
    for line in output.splitlines():
        if line.startswith('{"test"'):
            found = json.loads(line)
            outcomes[found["test"]] = Outcome(found["verdict"], found["reason"][:300])
    return outcomes


KSQL_REST = Suite(
    name="ksqlDB REST",
    source=FilesCheckout("ksql", copied=(CASES,)),
    steps=rest_cases,
    brokers=(1,),
    # Records of the cases are of 1970.
    settings={"log.retention.ms": "-1"},
    registry=RegistryNeed(),
    known=(
        KnownFailure(
            "limit-clause/on CTAS",
            "expects the elements of COLLECT_LIST in order of arrival, which Spark's own"
            " aggregation keeps in some runs",
            sometimes=True,
        ),
        KnownFailure(
            "scalable-push-queries/non-windowed stream with nulls",
            "expects that a row without a key is left out, which the case itself calls"
            " inconsistent with other push queries",
        ),
        KnownFailure(
            "select \\* against CST table with headers",
            "expects other columns first in the header than in its rows, and a mark of headers",
        ),
        KnownFailure(
            "should fail on mismatch between key and key field",
            "expects an error that ksqlDB does not have either: its own runner looks for one only"
            " where a case has a query",
        ),
        KnownFailure("`CREATE TABLE` table should fail|not materialized aggregate", ANSWERED),
        KnownFailure("feature: (join|where key multiple times)|error on ORDER BY", ANSWERED),
    ),
    limit_s=3 * HOUR_S,
)

SUITES = (KSQL_REST,)
