"""ksqlDB's own query validation cases, run through SqlTestDriver.

    python -m suites.ksqldb_cases CHECKOUT [--only REGEX] [--failures]

CHECKOUT is ksqlDB's repository, or a folder with its query-validation-tests. A positive case agrees
if each topic that it speaks of has the same records in the same order: key, value, window, and
timestamp and headers where they are given. A negative one agrees if it is refused. Nothing of the
cases is part of this repository.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from ottla.rows.errors import SqlError
from ottla.sql import SqlTestDriver
from ottla.sql.catalog import DataSource
from suites.ksqldb_comparison import difference
from suites.ksqldb_values import BadCase, CaseRegistry, encoded, headers_of, register_schemas

FOLDER: Final = "query-validation-tests"
REGISTRY: Final = re.compile(r"\b(AVRO|JSON_SR|PROTOBUF)\b", re.IGNORECASE)
# Settings of Kafka Streams, of its planner, and of ksqlDB's own harness.
PASSED_OVER: Final = (
    "ksql.new.query.planner.enabled",
    "ksql.streams.__emit.interval",
    "use.exact.numeric.comparison",
    "ksql.streams.topology.optimization",
)
PARTITIONS: Final = re.compile(r"\bPARTITIONS\s*=\s*(\d+)", re.IGNORECASE)
SCHEMA_ID: Final = re.compile(r"\b(KEY|VALUE)_SCHEMA_ID\s*=\s*(\d+)", re.IGNORECASE)
OWN_FUNCTIONS: Final = re.compile("Can't find any functions with the name")
"""Those that only ksqlDB's own tests have; a function that is missing would be found here, too."""


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    body: dict[str, Any]

    @property
    def negative(self) -> bool:
        return "expectedException" in self.body

    @property
    def needs_registry(self) -> bool:
        texts = "\n".join(self.body["statements"])
        topics = self.body.get("topics", ())
        return bool(REGISTRY.search(texts)) or "Schema" in repr(topics)


@dataclass(slots=True)
class Verdict:
    case: Case
    agrees: bool
    cause: str = ""
    left_out: bool = False

    def outcome(self) -> dict[str, str]:
        words = "skipped" if self.left_out else "passed" if self.agrees else "failed"
        return {"case": self.case.name, "verdict": words, "reason": self.cause}


@dataclass(slots=True)
class Tally:
    agree: int = 0
    differ: int = 0
    left_out: int = 0
    failures: list[Verdict] = field(default_factory=list)

    def add(self, verdict: Verdict) -> None:
        if verdict.left_out:
            self.left_out += 1
        elif verdict.agrees:
            self.agree += 1
        else:
            self.differ += 1
            self.failures.append(verdict)

    def __str__(self) -> str:
        whole = self.agree + self.differ
        share = 100 * self.agree / whole if whole else 100.0
        left = f", {self.left_out} left out" if self.left_out else ""
        return f"{self.agree} of {whole} ({share:.1f} %){left}"


def cases_in(folder: Path) -> Iterator[Case]:
    found = sorted(folder.rglob(f"{FOLDER}/*.json")) or sorted(folder.glob("*.json"))
    for path in found:
        for body in _loaded(path)["tests"]:
            if body.get("enabled") is False or "max" in body.get("versions", {}):
                continue
            for form in body.get("format", [""]):
                name = f"{path.stem} - {body['name']}" + (f" - {form}" if form else "")
                yield Case(name, _with_format(body, form))


def _loaded(path: Path) -> dict[str, Any]:
    text = path.read_text()
    try:
        found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    except json.JSONDecodeError:  # Jackson takes comments
        found = json.loads(re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE), parse_float=Decimal)
    return found


def _with_format(value: Any, form: str) -> Any:
    if isinstance(value, dict):
        return {name: _with_format(item, form) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_format(item, form) for item in value]
    return value.replace("{FORMAT}", form) if isinstance(value, str) else value


def judge(case: Case) -> Verdict:
    body = case.body
    try:
        with SqlTestDriver(properties_of(body)) as driver:
            try:
                prepare(body, driver.topic, driver.registry)
                for statement in body["statements"]:
                    driver.execute(statement, {"auto.offset.reset": "earliest"})
            except SqlError as error:
                return refused(case, error)
            for record in body.get("inputs", ()):
                _pipe(driver, record)
            if case.negative:
                if driver.failures:
                    return Verdict(case, True)
                return Verdict(case, False, f"not refused: {wanted_words(body)[:150]}")
            return _compared(case, driver)
    except BadCase as error:
        return Verdict(case, False, f"harness: {error}")
    except Exception as error:
        return Verdict(case, case.negative, f"{type(error).__name__}: {error}")


def properties_of(body: dict[str, Any]) -> dict[str, str]:
    return {
        name: str(value)
        for name, value in body.get("properties", {}).items()
        if not name.startswith(PASSED_OVER)
    }


def wanted_words(body: dict[str, Any]) -> str:
    return str(body["expectedException"].get("message", ""))


def refused(case: Case, error: SqlError) -> Verdict:
    if case.negative:
        return Verdict(case, True)
    own = bool(OWN_FUNCTIONS.search(str(error)))
    cause = " ".join(str(error).split())[:300]
    return Verdict(case, False, f"refused: {cause}", left_out=own)


def prepare(
    body: dict[str, Any], make_topic: Callable[[str, int], object], registry: CaseRegistry
) -> None:
    """As many partitions as the statements name: joined topics must have equally many."""
    texts = "\n".join(body["statements"])
    given = [text for text in body["statements"] if PARTITIONS.search(text)]
    wanted = [int(count) for text in given for count in PARTITIONS.findall(text)]
    for record in body.get("inputs", ()) if wanted else ():
        if not any(f"'{record['topic']}'" in text for text in given):
            make_topic(record["topic"], max(wanted))
    for topic in body.get("topics", ()):
        if isinstance(topic, dict):
            if "partitions" in topic:
                make_topic(topic["name"], topic["partitions"])
            register_schemas(registry, topic, SCHEMA_ID.findall(texts))


def _pipe(driver: SqlTestDriver, record: dict[str, Any]) -> None:
    topic = record["topic"]
    layout = next((source.layout for source in _sources(driver) if source.topic == topic), None)
    key, value = encoded(record, layout, driver.registry)
    timestamp, headers = int(record.get("timestamp", 0)), headers_of(record) or ()
    driver.send(topic, key, value, timestamp, headers)


def _compared(case: Case, driver: SqlTestDriver) -> Verdict:
    layouts = {source.topic: source.layout for source in reversed(_sources(driver))}
    cause = difference(
        case.body.get("outputs", ()),
        layouts,
        lambda topic: [driver.records(topic)],
        driver.registry,
    )
    trouble = f" [{driver.failures[0]}]" if cause and driver.failures else ""
    return Verdict(case, not cause, f"{cause}{trouble}")


def _sources(driver: SqlTestDriver) -> list[DataSource]:
    return list(driver.engine.state.catalog.sources.values())


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--only", default="", help="cases whose name has this regular expression")
    parser.add_argument("--failures", action="store_true", help="each failure on a line")
    parser.add_argument("--outcomes", action="store_true", help="each case as a line of JSON")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    kinds = ("positive", "negative", "with registry", "negative, with registry")
    tallies = {name: Tally() for name in kinds}
    began, count = time.monotonic(), 0
    for case in cases_in(given.checkout):
        if given.only and not re.search(given.only, case.name, re.IGNORECASE):
            continue
        kind = "negative" if case.negative else "positive"
        if case.needs_registry:
            kind = "with registry" if kind == "positive" else "negative, with registry"
        verdict = judge(case)
        tallies[kind].add(verdict)
        count += 1
        if given.outcomes:
            print(json.dumps(verdict.outcome()))
    spent = time.monotonic() - began
    for name, tally in tallies.items():
        print(f"{name}: {tally}")
    print(f"{count} cases in {spent:.1f} s ({count / spent:.0f} a second)")
    failures = [failure for tally in tallies.values() for failure in tally.failures]
    if given.failures:
        for failure in failures:
            print(f"- {failure.case.name}: {failure.cause}")
    else:
        causes = Counter(re.sub(r"[0-9]+|'[^']*'", "_", failure.cause)[:90] for failure in failures)
        for cause, number in causes.most_common(40):
            print(f"{number:5} {cause}")
    return 1 if tallies["positive"].failures else 0


if __name__ == "__main__":
    sys.exit(main())
