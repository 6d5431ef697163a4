"""Values as a cell shows them, and columns of a width that stays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.cells import cell_len, chop_cells

from ottla.sql.shell.client import Exact

CELL_MIN: Final = 4
TEXT_WIDTH: Final = 20
"""What a text gets before it is known how long texts are."""
TEXT_WIDTH_MAX: Final = 60
LINES_MAX: Final = 50
"""Of one cell: a larger value is cut."""

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
    """As ksqlDB's shell has it: `{A=1, B=[x, y]}`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Exact):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}={shown(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(shown, value)) + "]"
    return str(value)


def widths_by_type(names: Sequence[str], types: Sequence[str], room: int) -> list[int]:
    """For rows that come one by one: columns must have their widths before the first is seen."""
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
        for at, each in enumerate(row):
            longest = max(map(cell_len, each.split("\n")), default=0)
            wanted[at] = max(wanted[at], longest)
    return _narrowed(wanted, room)


def _spare(widths: Sequence[int], room: int) -> int:
    return room - sum(widths) - 3 * len(widths) - 1


def _narrowed(widths: list[int], room: int) -> list[int]:
    """The widest give way until all fit, or nothing more can give."""
    widths = [max(each, 1) for each in widths]
    over = -_spare(widths, room)
    while over > 0:
        widest = max(range(len(widths)), key=widths.__getitem__)
        if widths[widest] <= CELL_MIN:
            break
        widths[widest] -= 1
        over -= 1
    return widths


def lines_of(cells: Sequence[str], widths: Sequence[int]) -> list[list[str]]:
    """A row as lines: what is too wide for its cell goes on below."""
    columns = [
        [part for line in each.split("\n") for part in (chop_cells(line, width) or [""])]
        for each, width in zip(cells, widths, strict=True)
    ]
    height = min(max(map(len, columns), default=1), LINES_MAX)
    return [
        [
            _padded(each[at] if at < len(each) else "", width)
            for each, width in zip(columns, widths, strict=True)
        ]
        for at in range(height)
    ]


def _padded(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))
