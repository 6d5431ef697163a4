"""Tokens: splits text into tokens and statements, with respect to quotes and comments."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from ottla.rows.errors import SqlError


class Lexeme(Enum):
    WORD = auto()
    QUOTED = auto()
    STRING = auto()
    INTEGER = auto()
    DECIMAL = auto()
    FLOAT = auto()
    SYMBOL = auto()
    VARIABLE = auto()
    END = auto()


NUMBERS: Final = frozenset({Lexeme.INTEGER, Lexeme.DECIMAL, Lexeme.FLOAT})


@dataclass(frozen=True, slots=True)
class SqlToken:
    """`text` as written; `value` is a word in upper case or a string without quotes."""

    kind: Lexeme
    text: str
    value: str
    start: int
    end: int


_TOKEN: Final = re.compile(
    r"""
      (?P<space>   \s+ | --[^\n]* | /\*.*?\*/ )
    | (?P<word>    [A-Za-z_][A-Za-z0-9_@]* )
    | (?P<string>  '(?:[^']|'')*' )
    | (?P<quoted>  `(?:[^`]|``)*` | "(?:[^"]|"")*" )
    | (?P<float>   (?:\d+(?:\.\d*)?|\.\d+)[eE][+-]?\d+(?![A-Za-z0-9_@]) )
    | (?P<decimal> \d+\.\d* | \.\d+ )
    | (?P<digits>  \d[A-Za-z0-9_@]* )
    | (?P<symbol>  := | -> | => | <> | != | <= | >= | == | \|\| | /(?!\*) | [-+*%=<>()\[\],.;:] )
    | (?P<variable> \$?\$\{\w+\} )
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS: Final = {
    "word": Lexeme.WORD,
    "string": Lexeme.STRING,
    "quoted": Lexeme.QUOTED,
    "float": Lexeme.FLOAT,
    "decimal": Lexeme.DECIMAL,
    "symbol": Lexeme.SYMBOL,
    "variable": Lexeme.VARIABLE,
}


class TextPositions:
    """Converts offsets of a text to line and column, which start at 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(newline.end() for newline in re.finditer(r"\n", text))]

    def of(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


@dataclass(frozen=True, slots=True)
class StatementText:
    """One statement of a text: `text[start:end]` with its semicolon, `tokens` without it."""

    start: int
    end: int
    tokens: tuple[SqlToken, ...]
    closed: bool


def statement_texts(text: str) -> Iterator[StatementText]:
    """The statements of a text without empty ones; the last one may lack its semicolon."""
    tokens: list[SqlToken] = []
    for token in scan(text):
        if token.kind is Lexeme.SYMBOL and token.value == ";":
            if tokens:
                yield StatementText(tokens[0].start, token.end, tuple(tokens), closed=True)
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield StatementText(tokens[0].start, tokens[-1].end, tuple(tokens), closed=False)


def split_statements(text: str) -> tuple[list[str], str]:
    """The complete statements of a text that is being typed, and the incomplete rest."""
    whole, at = [], 0
    try:
        for piece in statement_texts(text):
            if not piece.closed:
                break
            whole.append(text[piece.start : piece.end])
            at = piece.end
    except SqlError:  # an open quote or comment: incomplete
        pass
    rest = text[at:]
    return whole, rest if _says_something(rest) else ""


def _says_something(rest: str) -> bool:
    try:
        return next(scan(rest), None) is not None
    except SqlError:
        return True


def scan(text: str) -> Iterator[SqlToken]:
    at, last = 0, ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind, written = match.lastgroup, match.group()
        assert kind is not None
        if kind == "digits" and not written.isdigit():
            if last != "AS":  # after AS it must be a name
                raise _digit_first(text, at, written)
            kind = "word"
        if kind == "digits":
            yield SqlToken(Lexeme.INTEGER, written, written, at, match.end())
        elif kind != "space":
            yield SqlToken(_KINDS[kind], written, _value(kind, written), at, match.end())
        last = last if kind == "space" else written.upper()
        at = match.end()


def _value(kind: str, written: str) -> str:
    if kind == "word":
        return written.upper()
    if kind in ("string", "quoted"):
        quote = written[0]
        return written[1:-1].replace(quote * 2, quote)
    return written


_OPEN: Final = {
    "'": ("unterminated string", "Close it with a single quote; write a quote inside as ''."),
    "`": ("unterminated name", "Close it with a back quote (`)."),
    '"': ("unterminated name", 'Close it with a double quote ("). Use single quotes for strings.'),
    "/": ("unterminated comment", "Close it with */."),
}
_CURLY: Final = "‘’“”‚„"


def _unreadable(text: str, at: int) -> SqlError:
    line, column = TextPositions(text).of(at)
    char = text[at]
    if char in _OPEN and (char != "/" or text.startswith("/*", at)):
        message, remedy = _OPEN[char]
    elif char in _CURLY:
        message = f"unexpected '{char}'"
        remedy = "Use straight single quotes for strings: 'like this'."
    elif char == "$":
        message, remedy = "unexpected '$'", "Write a variable as ${name}."
    else:
        message = f"unexpected '{char}'"
        remedy = "Use back quotes (`) for names with characters other than letters, digits and _."
    return SqlError(message, remedy=remedy, statement=text, line=line, column=column)


def _digit_first(text: str, at: int, written: str) -> SqlError:
    line, column = TextPositions(text).of(at)
    return SqlError(
        f"identifiers must not start with a digit: {written}",
        remedy=f"Put it in back quotes: `{written}`.",
        statement=text,
        line=line,
        column=column,
    )
