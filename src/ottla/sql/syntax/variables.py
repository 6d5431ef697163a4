"""Variable substitution: `${name}` in a statement is replaced by the value of DEFINE.

A value is inserted as text, in strings and quoted names too. It may be several tokens, but can't
end the statement, because texts are split into statements before. `$${name}` becomes `${name}`. An
undefined name in a string is left as it is: it may be meant for a connector, for example.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.rows.errors import SqlError
from ottla.sql.syntax.tokens import Lexeme, StatementText, TextPositions

_REFERENCE: Final = re.compile(r"(\$?)\$\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class Substitution:
    """A statement after substitution, with the original positions of its parts."""

    text: str
    shifts: tuple[tuple[int, int], ...]
    """(offset here, original offset) at the start of each unchanged part."""

    def original(self, offset: int) -> int:
        here, there = self.shifts[bisect_right(self.shifts, (offset, 1 << 60)) - 1]
        return there + offset - here


def substitute_variables(
    text: str, piece: StatementText, variables: Mapping[str, str]
) -> Substitution:
    by_name = {name.upper(): value for name, value in variables.items()}
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
    return Substitution("".join(out), tuple(shifts))


def _value(
    text: str, piece: StatementText, match: re.Match[str], by_name: Mapping[str, str]
) -> str | None:
    if match.group(1):
        return match.group()[1:]
    found = by_name.get(match.group(2).upper())
    bare = any(
        token.kind is Lexeme.VARIABLE and token.start == match.start() for token in piece.tokens
    )
    if found is None and bare:
        line, column = TextPositions(text).of(match.start())
        raise SqlError(
            f"variable {match.group(2)} is not defined",
            remedy=f"Define it first: DEFINE {match.group(2)} = 'value';",
            statement=text[piece.start : piece.end],
            line=line,
            column=column,
        )
    return found
