"""`${name}` in a statement, replaced by what DEFINE gave it.

A value goes in as text, inside of strings and quoted names too; it may be several tokens, but never
ends a statement: statements are cut before. `$${name}` stays, as `${name}`. In a string a name that
nobody defined stays as well: it may be meant for somebody else, such as a connector.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.syntax.scanner import Lexeme, Piece, Places

_REFERENCE: Final = re.compile(r"(\$?)\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Replaced:
    """A statement after replacement, and where its parts stood before."""

    text: str
    shifts: tuple[tuple[int, int], ...]
    """(offset here, offset in the original) where each unchanged part begins."""

    def original(self, offset: int) -> int:
        here, there = self.shifts[bisect_right(self.shifts, (offset, 1 << 60)) - 1]
        return there + offset - here


def replace(text: str, piece: Piece, variables: Mapping[str, str]) -> Replaced:
    by_name = {name.upper(): each for name, each in variables.items()}
    out: list[str] = []
    shifts = [(0, piece.start)]
    at, length = piece.start, 0
    for match in _REFERENCE.finditer(text, piece.start, piece.end):
        value = _value(text, piece, match, by_name)
        if value is None:
            continue
        out += [text[at : match.start()], value]
        length += match.start() - at
        shifts.append((length, match.start()))
        length += len(value)
        at = match.end()
        shifts.append((length, at))
    out.append(text[at : piece.end])
    return Replaced("".join(out), tuple(shifts))


def _value(text: str, piece: Piece, match: re.Match[str], by_name: Mapping[str, str]) -> str | None:
    if match.group(1):
        return match.group()[1:]
    found = by_name.get(match.group(2).upper())
    bare = any(
        each.kind is Lexeme.VARIABLE and each.start == match.start() for each in piece.tokens
    )
    if found is None and bare:
        line, column = Places(text).of(match.start())
        raise SqlError(
            f"variable {match.group(2)} is not defined",
            remedy=f"Define it first: DEFINE {match.group(2)} = 'value';",
            statement=text[piece.start : piece.end],
            line=line,
            column=column,
        )
    return found
