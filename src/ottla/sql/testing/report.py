"""Runs test files, and reports a line for each test, followed by its failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from ottla.rows.errors import SqlError
from ottla.sql.testing.sql_test_cases import SqlTestCase, cases_of, run_case


def run_files(files: Iterable[Path], tell: Callable[[str], None], *, only: str = "") -> bool:
    """Run the tests of files; True if none failed."""
    passed = failed = 0
    began = time.monotonic()
    for path in files:
        for case in _cases(path, tell):
            if case is not None and only not in case.name:
                continue
            if case is not None and _report(case, path, tell):
                passed += 1
            else:
                failed += 1
    spent = time.monotonic() - began
    tell(f"{passed} passed, {failed} failed in {spent:.2f} s")
    return not failed


def _cases(path: Path, tell: Callable[[str], None]) -> list[SqlTestCase] | list[None]:
    try:
        return cases_of(path)
    except SqlError as error:
        tell(f"FAILED {error}")
        return [None]


def _report(case: SqlTestCase, path: Path, tell: Callable[[str], None]) -> bool:
    began = time.monotonic()
    wrong = run_case(case, path.parent)
    spent_ms = (time.monotonic() - began) * 1000
    if not wrong:
        tell(f"ok     {case.name} ({spent_ms:.0f} ms)")
        return True
    tell(f"FAILED {case.name} ({path}:{case.line})")
    for line in wrong.splitlines():
        tell(f"       {line}")
    return False
