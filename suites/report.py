"""The one table, on the terminal and in docs/compatibility.md."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from suites.suite import Suite
from suites.verdicts import RunResult

BEGIN = "<!-- suites: begin (written by `make suites ARGS=--write-docs`) -->"
END = "<!-- suites: end -->"
TESTS_NAMED_MAX = 6
COLUMNS = 100
KEPT_SPACE = "\0"


def print_table(console: Console, results: Sequence[RunResult]) -> None:
    table = Table(title="Suites of others", title_justify="left")
    for heading in ("suite", "brokers", "peer"):
        table.add_column(heading)
    for heading in ("run", "passed", "failed: known", "unknown", "skipped", "min"):
        table.add_column(heading, justify="right")
    for result in results:
        if result.not_run:
            table.add_row(result.suite, str(result.brokers), result.peer, "not run")
            continue
        table.add_row(
            result.suite,
            str(result.brokers),
            result.peer,
            str(result.run),
            str(result.passed),
            str(len(result.known)),
            f"[red]{len(result.unknown)}[/red]" if result.unknown else "0",
            str(result.skipped),
            f"{result.took_s / 60:.1f}",
        )
    console.print(table)
    for result in results:
        for line in notes(result):
            console.print(escape(line), highlight=False, soft_wrap=True)


def notes(result: RunResult) -> list[str]:
    where = f"{result.suite} on {result.brokers}"
    lines = [f"{where}: not run: {result.not_run}"] if result.not_run else []
    lines += [f"{where}: FAILED {failure.test}: {failure.said}" for failure in result.unknown]
    lines += [f"{where}: known {failure.test}: {failure.reason}" for failure in result.known]
    lines += [f"{where}: a known failure is gone: {pattern}" for pattern in result.gone]
    lines += [f"{where}: {trouble}" for trouble in result.troubles]
    return lines


def as_markdown(results: Sequence[RunResult], suites: Sequence[Suite] = ()) -> str:
    rows = [
        "| suite | brokers | run | passed | known failures | unknown | skipped | date |",
        "|---|--:|--:|--:|--:|--:|--:|---|",
    ]
    failed: dict[tuple[str, str], list[str]] = {}
    for result in results:
        cells = [
            result.suite, result.brokers, result.run, result.passed, len(result.known),
            len(result.unknown), result.skipped, result.date,
        ]  # fmt: skip
        rows.append("| " + " | ".join(str(cell) for cell in cells) + " |")
        for failure in result.failures:
            tests = failed.setdefault((result.suite, failure.reason or "not known"), [])
            if failure.test not in tests:
                tests.append(failure.test)
    left_out: dict[tuple[str, str], list[str]] = {}
    for suite in suites:
        for test, reason in suite.left_out.items():
            left_out.setdefault((suite.name, reason), []).append(test)
    lines = [*rows, ""]
    if failed:
        lines += ["Failed:", "", *_by_reason(failed), ""]
    if left_out:
        lines += ["Left out:", "", *_by_reason(left_out), ""]
    return "\n".join(lines)


def _by_reason(tests_of: dict[tuple[str, str], list[str]]) -> Iterator[str]:
    """A list entry for each suite and reason, wrapped at the docs' width."""
    for (suite, reason), tests in tests_of.items():
        shown = ", ".join(map(_code_span, tests[:TESTS_NAMED_MAX]))
        more = f" and {len(tests) - TESTS_NAMED_MAX} more" if len(tests) > TESTS_NAMED_MAX else ""
        text = f"- {suite}: {shown}{more}: {reason}."
        yield textwrap.fill(
            text, COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        ).replace(KEPT_SPACE, " ")


def _code_span(test: str) -> str:
    """The name of a test, which stays on one line so that a search finds it."""
    fence = "``" if "`" in test else "`"
    return f"{fence}{test.strip()}{fence}".replace(" ", KEPT_SPACE)


def write_docs(path: Path, results: Sequence[RunResult], suites: Sequence[Suite] = ()) -> None:
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise ValueError(f"{path} lacks the markers of this table")
    path.write_text(f"{before}{BEGIN}\n\n{as_markdown(results, suites)}{END}{after}")


def keep(path: Path, result: RunResult) -> None:
    """The last result of each run, so that suites may be run one by one.

    Without the words of suites and brokers: they name places of one machine.
    """
    kept = {_key(result): result for result in kept_results(path)}
    if not result.not_run:
        failures = [replace(failure, said="") for failure in result.failures]
        kept[_key(result)] = replace(result, failures=failures, troubles=[])
    path.parent.mkdir(parents=True, exist_ok=True)
    in_order = [kept[key].as_json() for key in sorted(kept)]
    path.write_text(json.dumps(in_order, indent=1) + "\n")


def kept_results(path: Path) -> list[RunResult]:
    if not path.exists():
        return []
    return [RunResult.from_json(result) for result in json.loads(path.read_text())]


def _key(result: RunResult) -> tuple[str, int, str]:
    return result.suite, result.brokers, result.peer
