"""Cells of tables: the text of a value, and the widths of columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.cells import cell_len, chop_cells

from ottla.sql.shell.client import ExactNumber

CELL_MIN: Final = 4
TEXT_WIDTH: Final = 20
"""The width of a text column before its values are known."""
TEXT_WIDTH_MAX: Final = 60
LINES_MAX: Final = 50
"""The maximum height of a cell; larger values are cut."""

_WIDTHS: Final = {
    "BOOLEAN": 5,
    "INTEGER": 11,
    "BIGINT": 15,
    "DOUBLE": 18,
    "DATE": 10,
    "TIME": 12,
    "TIMESTAMP": 23,
}


def shown(value: Any) -> str:
    """A value as in ksqlDB's CLI: `{A=1, B=[x, y]}`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, ExactNumber):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={shown(entry)}" for name, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def widths_by_type(names: Sequence[str], types: Sequence[str], room: int) -> list[int]:
    """Widths by type, for rows that come one by one: the first row needs them already."""
    wanted, flexible = [], []
    for at, (name, kind) in enumerate(zip(names, types, strict=True)):
        width = _WIDTHS.get(kind.split("(")[0], TEXT_WIDTH)
        if width == TEXT_WIDTH:
            flexible.append(at)
        wanted.append(max(cell_len(name), width))
    spare = _spare(wanted, room)
    for left, at in zip(range(len(flexible), 0, -1), flexible, strict=True):
        more = min(max(spare, 0) // left, TEXT_WIDTH_MAX - wanted[at])
        wanted[at] += max(more, 0)
        spare -= max(more, 0)
    return _narrowed(wanted, room)


def widths_by_rows(names: Sequence[str], rows: Iterable[Sequence[str]], room: int) -> list[int]:
    wanted = [cell_len(name) for name in names]
    for row in rows:
        for at, cell in enumerate(row):
            longest = max(map(cell_len, cell.split("\n")), default=0)
            wanted[at] = max(wanted[at], longest)
    return _narrowed(wanted, room)


def _spare(widths: Sequence[int], room: int) -> int:
    return room - sum(widths) - 3 * len(widths) - 1


def _narrowed(widths: list[int], room: int) -> list[int]:
    """Narrow the widest columns until all fit, or none can become narrower."""
    widths = [max(width, 1) for width in widths]
    over = -_spare(widths, room)
    while over > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= CELL_MIN:
            break
        widths[widest] -= 1
        over -= 1
    return widths


def lines_of(cells: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """A row as lines; wide values are wrapped within their cells."""
    columns = [
        [part for line in cell.split("\n") for part in (chop_cells(line, width) or [""])]
        for cell, width in zip(cells, widths, strict=True)
    ]
    height = min(max(map(len, columns), default=1), LINES_MAX)
    return [
        [
            _padded(column[at] if at < len(column) else "", width)
            for column, width in zip(columns, widths, strict=True)
        ]
        for at in range(height)
    ]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
