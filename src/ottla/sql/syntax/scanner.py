"""Text to tokens, and text to statements: what respects quotes and comments."""

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
class Token:
    """`text` as it was written; `value` as it counts: a word in upper case, a string unquoted."""

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


class Places:
    """Lines and columns of a text, both from 1."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(each.end() for each in re.finditer(r"\n", text))]

    def of(self, offset: int) -> tuple[int, int]:
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement of a text, `text[start:end]` with its semicolon, and its tokens without."""

    start: int
    end: int
    tokens: tuple[Token, ...]
    closed: bool


def pieces(text: str) -> Iterator[Piece]:
    """The statements of a text; the last may lack its semicolon. Empty ones are left out."""
    tokens: list[Token] = []
    for token in scan(text):
        if token.kind is Lexeme.SYMBOL and token.value == ";":
            if tokens:
                yield Piece(tokens[0].start, token.end, tuple(tokens), closed=True)
            tokens = []
        else:
            tokens.append(token)
    if tokens:
        yield Piece(tokens[0].start, tokens[-1].end, tuple(tokens), closed=False)


def split(text: str) -> tuple[list[str], str]:
    """The whole statements of a text that is being typed, and what has no end yet."""
    whole, at = [], 0
    try:
        for piece in pieces(text):
            if not piece.closed:
                break
            whole.append(text[piece.start : piece.end])
            at = piece.end
    except SqlError:  # An open quote or comment: more is to come.
        pass
    rest = text[at:]
    return whole, rest if _says_something(rest) else ""


def _says_something(rest: str) -> bool:
    try:
        return next(scan(rest), None) is not None
    except SqlError:
        return True


def scan(text: str) -> Iterator[Token]:
    at, last = 0, ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind, written = match.lastgroup, match.group()
        assert kind is not None
        if kind == "digits" and not written.isdigit():
            if last != "AS":  # only there it can be nothing but a name
                raise _digit_first(text, at, written)
            kind = "word"
        if kind == "digits":
            yield Token(Lexeme.INTEGER, written, written, at, match.end())
        elif kind != "space":
            yield Token(_KINDS[kind], written, _value(kind, written), at, match.end())
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
    "'": ("this string has no end", "Close it with a single quote; a quote in it is written ''."),
    "`": ("this name has no end", "Close it with a back quote (`)."),
    '"': ("this name has no end", 'Close it with a double quote ("); strings take single quotes.'),
    "/": ("this comment has no end", "Close it with */."),
}
_CURLY: Final = "‘’“”‚„"


def _unreadable(text: str, at: int) -> SqlError:
    line, column = Places(text).of(at)
    char = text[at]
    if char in _OPEN and (char != "/" or text.startswith("/*", at)):
        message, remedy = _OPEN[char]
    elif char in _CURLY:
        message = f"unexpected '{char}'"
        remedy = "Strings take straight single quotes: 'like this'. A word processor bends them."
    elif char == "$":
        message, remedy = "unexpected '$'", "A variable is written ${name}."
    else:
        message = f"unexpected '{char}'"
        remedy = "A name with other characters than letters, digits and _ goes in back quotes (`)."
    return SqlError(message, remedy=remedy, statement=text, line=line, column=column)


def _digit_first(text: str, at: int, written: str) -> SqlError:
    line, column = Places(text).of(at)
    return SqlError(
        f"identifiers must not start with a digit: {written}",
        remedy=f"Put it in back quotes: `{written}`.",
        statement=text,
        line=line,
        column=column,
    )
