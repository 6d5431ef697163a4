r"""Java's .properties syntax, the one `server.properties` is written in.

A line is `key = value`, `key: value` or `key value`; `#` and `!` open a comment line; an odd number
of backslashes at the end of a line joins the next one to it, without that one's leading blanks;
`\t \n \r \f \uXXXX` are characters, and a backslash before anything else is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_BLANK = " \t\f"
_LINE = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "": ""}


def parse_properties(text: str) -> dict[str, str]:
    """All properties of a file; the last one of a repeated key wins, as in Java."""
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        key, value = _split(line)
        properties[_unescape(key)] = _unescape(value)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    joining = False
    for natural in _LINE.split(text):
        line = natural.lstrip(_BLANK)
        if not joining and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            joining = True
            continue
        yield pending + line
        pending = ""
        joining = False
    if pending:
        yield pending


def _split(line: str) -> tuple[str, str]:
    """Split at the first blank, `=` or `:` that no backslash escapes."""
    end = 0
    while end < len(line) and line[end] not in " \t\f=:":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPE.sub(_character, text)


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError("malformed \\uxxxx escape")
    return _LETTERS.get(code, code)
