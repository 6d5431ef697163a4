"""The screen: prints rows as they come, tables, and errors with their position."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum
from typing import IO, Any, Final

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from ottla.rows.errors import SqlError
from ottla.sql.shell.cells import lines_of, shown, widths_by_rows, widths_by_type

PIPE_WIDTH: Final = 1000
"""The width of output that is not a terminal, so that tables are not cut."""
PIPE_STREAM_WIDTH: Final = 120
"""The width of columns if rows come one by one."""
INDENT: Final = "  "
"""The indent of a statement's line that is shown with an error."""
PEEK_ROWS: Final = 500
"""The rows of a finite query that determine the widths of columns."""


class OutputFormat(StrEnum):
    TABULAR = "TABULAR"
    JSON = "JSON"


class Screen:
    def __init__(
        self, out: IO[str], errors: IO[str], *, output: OutputFormat = OutputFormat.TABULAR
    ) -> None:
        self.is_terminal = out.isatty()
        self.output = output
        self._spool: Console | None = None
        self._out = self._console(out, self.is_terminal)
        self._errors = self._console(errors, errors.isatty())

    @staticmethod
    def _console(stream: IO[str], terminal: bool) -> Console:
        width = None if terminal else PIPE_WIDTH
        return Console(
            file=stream, highlight=False, emoji=False, soft_wrap=not terminal, width=width
        )

    # -- text and tables

    def say(self, text: str) -> None:
        self._print(text)

    def say_plain(self, text: str) -> None:
        """Print text without interpreting markup."""
        self._print(Text(text))

    def note(self, text: str) -> None:
        """Print a remark, but not with JSON output, which scripts read."""
        if self.output is OutputFormat.TABULAR:
            self._print(f"[dim]{escape(text)}[/]")

    def json(self, value: Any) -> None:
        self._print(Text(json.dumps(value, indent=2, ensure_ascii=False)))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
        table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in rows:
            table.add_row(*(Text(shown(cell)) for cell in row))
        self._print(table)

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print names with values; empty values are left out."""
        table = Table(box=None, show_header=False, padding=(0, 2))
        for name, value in facts.items():
            if value:
                table.add_row(Text(name, style="dim"), Text(shown(value)))
        self._print(table)

    def waiting(self, what: str) -> AbstractContextManager[Any]:
        if not self.is_terminal or self.output is OutputFormat.JSON:
            return nullcontext()
        return self._out.status(f"[dim]{escape(what)}[/]", spinner="dots")

    def clear(self) -> None:
        self._out.clear()

    def spool_to(self, stream: IO[str] | None) -> None:
        """Copy all output to this file."""
        self._spool = self._console(stream, False) if stream else None

    def _print(self, thing: Any) -> None:
        self._out.print(thing)
        if self._spool is not None:
            self._spool.print(thing)

    # -- errors

    def error(self, error: Exception) -> None:
        """Print the message, the position in the statement, and the remedy."""
        lines: list[str] = []
        if isinstance(error, SqlError):
            lines += _marked(error, self._errors.width)
        message = error.message if isinstance(error, SqlError) else str(error)
        lines.append(f"[bold red]error[/] {escape(message)}")
        if isinstance(error, SqlError) and error.remedy:
            lines += [f"      {escape(line)}" for line in error.remedy.split("\n")]
        for line in lines:
            self._errors.print(line)
            if self._spool is not None:
                self._spool.print(line)

    # -- rows

    def rows(
        self, names: Sequence[str], types: Sequence[str], rows: Iterable[Any], *, endless: bool
    ) -> int:
        """Print all rows; return their number."""
        if self.output is OutputFormat.JSON:
            return self._rows_as_json(names, rows)
        iterator = iter(rows)
        room = self._out.width if self.is_terminal else PIPE_WIDTH
        first: list[list[str]] = []
        if not endless:
            first = [_cells(row) for _, row in zip(range(PEEK_ROWS), iterator, strict=False)]
            widths = widths_by_rows(names, first, room)
        else:
            room = room if self.is_terminal else PIPE_STREAM_WIDTH
            widths = widths_by_type(names, types, room)
        grid = _Grid(names, widths)
        for line in grid.head():
            self._print(line)
        count = 0
        for row in first:
            self._row(grid, row)
            count += 1
        for next_row in iterator:
            self._row(grid, _cells(next_row))
            count += 1
        self._print(grid.foot())
        return count

    def _row(self, grid: _Grid, cells: list[str]) -> None:
        for line in grid.row(cells):
            self._print(line)

    def _rows_as_json(self, names: Sequence[str], rows: Iterable[Any]) -> int:
        count = 0
        for row in rows:
            named = dict(zip(names, _values(row), strict=False))
            self._print(Text(json.dumps(named, ensure_ascii=False)))
            count += 1
        return count


def _values(row: Any) -> list[Any]:
    """The values of a row; a tombstone is an object with the key only."""
    if isinstance(row, dict):
        inner = row.get("row", row)
        return list(inner.get("columns", inner.values()))
    return list(row)


def _cells(row: Any) -> list[str]:
    return [shown(value) for value in _values(row)]


class _Grid:
    """Lines of a table with columns of fixed width."""

    def __init__(self, names: Sequence[str], widths: Sequence[int]) -> None:
        self._names = names
        self._widths = widths

    def head(self) -> list[Text]:
        lines = [self._border("┌", "┬", "┐")]
        for cells in lines_of(list(self._names), self._widths):
            lines.append(self._line(cells, "bold"))
        return [*lines, self._border("├", "┼", "┤")]

    def row(self, cells: Sequence[str]) -> list[Text]:
        filled = [*cells, *[""] * (len(self._widths) - len(cells))]
        return [self._line(line, "") for line in lines_of(filled, self._widths)]

    def foot(self) -> Text:
        return self._border("└", "┴", "┘")

    def _border(self, left: str, middle: str, right: str) -> Text:
        text = left + middle.join("─" * (width + 2) for width in self._widths) + right
        return Text(text, style="dim", no_wrap=True)

    def _line(self, cells: Sequence[str], style: str) -> Text:
        line = Text(no_wrap=True)
        line.append("│ ", style="dim")
        for at, cell in enumerate(cells):
            if at:
                line.append(" │ ", style="dim")
            line.append(cell, style=style or ("dim" if cell.strip() == "null" else ""))
        line.append(" │", style="dim")
        return line


def _marked(error: SqlError, width: int) -> list[str]:
    """The line of the statement with the error, and below it a caret."""
    lines = error.statement.split("\n")
    if not error.line or error.line > len(lines):
        return []
    line = lines[error.line - 1]
    line, at = excerpt(line, min(error.column - 1, len(line)), width - len(INDENT) - 1)
    before = "".join("\t" if character == "\t" else " " for character in line[:at])
    return [f"{INDENT}{escape(line)}", f"{INDENT}{before}[bold red]^[/]"]


def excerpt(line: str, at: int, room: int) -> tuple[str, int]:
    """The part of a line around position `at` that fits, and the position in it. If the terminal
    wrapped the line, the caret would be in the wrong place."""
    if len(line) <= room:
        return line, at
    start = max(0, min(at - room // 2, len(line) - room))
    end = start + room
    head, tail = ("…" if start else ""), ("…" if end < len(line) else "")
    return head + line[start + len(head) : end - len(tail)] + tail, at - start
