"""SQL test cases: files of statements with ASSERT, with a `--@test: name` before each test.

    --@test: totals by customer
    CREATE STREAM orders (id INT KEY, amount INT) WITH (KAFKA_TOPIC='orders', FORMAT='JSON');
    CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;
    INSERT INTO orders (ROWTIME, id, amount) VALUES (10, 1, 5);
    ASSERT VALUES totals (ROWTIME, id, total) VALUES (10, 1, 5);

As in ksqlDB's test tool every test starts empty. A test with `--@expected.error: kind` and
`--@expected.message: text` must fail.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.driver import SqlTestDriver
from ottla.sql.ksql_config import check_property, plain_name
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import (
    AssertSource,
    AssertValues,
    RunScript,
    SetProperty,
    Statement,
    UnsetProperty,
)
from ottla.sql.testing.assertions import AssertionFailure, Assertions

DIRECTIVE: Final = re.compile(r"^--@([a-z.]+):[ \t]*(.*?)\s*$")
PREPARING: Final = "Exception while preparing statement: "
"""The prefix of ksqlDB's message for an invalid statement."""
ASSERTION_ERROR: Final = "AssertionError"


@dataclass(slots=True)
class SqlTestCase:
    """One test; `line` is its first line in the file."""

    __test__ = False  # pytest would collect it by its name
    name: str
    line: int
    expected_error: str | None = None
    expected_message: str | None = None
    lines: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def must_fail(self) -> bool:
        return self.expected_error is not None or self.expected_message is not None


def cases_of(path: Path) -> list[SqlTestCase]:
    """The tests of a file; one without `--@test` is a single test with the name of the file."""
    cases: list[SqlTestCase] = []
    before = SqlTestCase(path.name, 1)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        now = cases[-1] if cases else before
        found = DIRECTIVE.match(line)
        match found.groups() if found else ("", ""):
            case ("test", name):
                cases.append(SqlTestCase(name, number))
            case ("expected.error", kind):
                now.expected_error = kind
            case ("expected.message", message):
                now.expected_message = message
            case (name, _) if name:
                raise SqlError(
                    f"{path}:{number}: unknown directive --@{name}",
                    remedy="Use --@test, --@expected.error or --@expected.message.",
                )
            case _:
                now.lines.append(line)
    return cases or [before]


def run_case(case: SqlTestCase, folder: Path) -> str:
    """Run a test; return its failure or "". `folder` has the files of RUN SCRIPT."""
    try:
        with SqlTestDriver() as driver:
            Script(driver, folder).run(case.text)
    except (SqlError, AssertionFailure) as error:
        return "" if case.must_fail and _is_expected(case, error) else _failure_text(case, error)
    if case.must_fail:
        wanted = case.expected_message or case.expected_error
        return f"did not fail, but should have: {wanted}"
    return ""


def _is_expected(case: SqlTestCase, error: Exception) -> bool:
    asserted = isinstance(error, AssertionFailure)
    kind = case.expected_error
    if kind is not None and kind.endswith(ASSERTION_ERROR) and not asserted:
        return False
    wanted = (case.expected_message or "").removeprefix(PREPARING)
    return wanted in str(error)


def _failure_text(case: SqlTestCase, error: Exception) -> str:
    if not case.must_fail:
        return str(error)
    wanted = case.expected_message or case.expected_error
    return f"failed with another error than expected.\nExpected: {wanted}\nFound: {error}"


class Script:
    """Executes statements one after another on a driver."""

    def __init__(self, driver: SqlTestDriver, folder: Path) -> None:
        self._driver = driver
        self._folder = folder
        self._properties: dict[str, object] = {"auto.offset.reset": "earliest"}
        self._assertions = Assertions(driver)

    def run(self, text: str) -> None:
        for statement in self._statements(text):
            self._execute(statement)

    def _statements(self, text: str) -> Iterator[Statement]:
        yield from parse(text, types=self._driver.engine.state.catalog.types)

    def _execute(self, statement: Statement) -> None:
        match statement:
            case AssertValues():
                self._assertions.values(statement)
            case AssertSource():
                self._assertions.source(statement)
            case RunScript():
                path = self._folder / statement.path
                if not path.is_file():
                    raise SqlError(f"Could not read {statement.path}", remedy=f"Is {path} there?")
                self.run(path.read_text())
            case SetProperty():
                name = check_property(statement.name, statement.value)
                self._properties[name] = statement.value
            case UnsetProperty():
                self._properties.pop(plain_name(statement.name), None)
            case _:
                self._driver.execute(statement.text, self._properties)
