"""The tokens of a .proto file."""

from __future__ import annotations

import re
from typing import NamedTuple

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.limits import NODES_MAX

# Every alternative begins with another character, so that none is tried in vain.
_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<line>//[^\n]*)|(?P<block>/\*.*?\*/)"
    r'|(?P<text>"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\')'
    r"|(?P<word>\.?[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"|(?P<mark>[{}\[\]()<>;,=:+\-/.])",
    re.DOTALL | re.ASCII,
)
_TOKENS_MAX = 10 * NODES_MAX
# A name is looked up in each enclosing scope: a package of a thousand parts would be as slow.
WORD_CHARS_MAX = 256


class ProtoToken(NamedTuple):
    kind: str  # text, word, number, mark, end
    text: str
    line: int
    doc: str  # the comment in front of it


def tokenize(text: str) -> list[ProtoToken]:
    tokens: list[ProtoToken] = []
    position, line, doc = 0, 1, ""
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise InvalidSchema(f"line {line}: unexpected {text[position]!r}")
        kind, found = str(match.lastgroup), match[0]
        if kind in ("line", "block"):
            # A comment at the end of a line belongs to that line, not to the next one.
            if not tokens or tokens[-1].line < line:
                doc = f"{doc}\n{_comment(found)}" if doc else _comment(found)
        elif kind != "space":
            if kind == "word" and len(found) > WORD_CHARS_MAX:
                raise InvalidSchema(
                    f"line {line}: a name has more than {WORD_CHARS_MAX} characters"
                )
            tokens.append(ProtoToken(kind, found, line, doc))
            doc = ""
            if len(tokens) > _TOKENS_MAX:
                raise InvalidSchema(f"the schema has more than {_TOKENS_MAX} words")
        elif found.count("\n") > 1:
            doc = ""  # a comment followed by a blank line stands alone
        line += found.count("\n")
        position = match.end()
    tokens.append(ProtoToken("end", "the end of the file", line, ""))
    return tokens


def _comment(text: str) -> str:
    if text.startswith("//"):
        return text[2:].strip()
    lines = (line.strip().lstrip("*").strip() for line in text[2:-2].strip("*").split("\n"))
    return "\n".join(lines).strip()
