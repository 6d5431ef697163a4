"""Every kind of statement: parsed, formatted, and parsed again to the same.

The files in corpus/ have a statement on the left margin and below it, indented, how it is written
again. `python test_corpus.py` rewrites those lines, to be read as a diff.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.rows.types import INTEGER, STRING, struct
from ottla.sql.syntax import (
    format_expression,
    format_statement,
    parse,
    parse_expression,
)

CORPUS = Path(__file__).parent / "corpus"
TYPES = {"ADDRESS": struct(("CITY", STRING), ("NUMBER", INTEGER))}
INDENT = "    "


def entries(path: Path) -> Iterator[tuple[str, str]]:
    """What is read, and how it is written again; lines that begin with a `#` are headings."""
    read: list[str] = []
    for line in [*path.read_text().splitlines(), ""]:
        if line.startswith(INDENT):
            yield "\n".join(read), line.removeprefix(INDENT)
            read = []
        elif not line.startswith("# "):
            read.append(line)


def again(text: str, *, expressions: bool) -> str:
    if expressions:
        return format_expression(parse_expression(text)).replace("\n", "\\n")
    (statement,) = parse(text, types=TYPES)
    return format_statement(statement)


FILES = sorted(CORPUS.glob("*.txt"))
CASES = [
    pytest.param(text, written, path.stem == "expressions", id=f"{path.stem}-{at}")
    for path in FILES
    for at, (text, written) in enumerate(entries(path))
]


@pytest.mark.parametrize(("text", "written", "expressions"), CASES)
def test_a_statement_is_formatted_as_it_was_meant(
    text: str, written: str, expressions: bool
) -> None:
    assert again(text, expressions=expressions) == written
    if expressions:
        first = parse_expression(text)
        assert parse_expression(format_expression(first)) == first
    else:
        assert parse(written, types=TYPES) == parse(text, types=TYPES)


def test_the_corpus_is_large() -> None:
    assert len(CASES) > 300


def rewrite() -> None:
    for path in FILES:
        out: list[str] = []
        read: list[str] = []
        for line in path.read_text().splitlines():
            if line.startswith(INDENT):
                continue
            out.append(line)
            if line.startswith("# "):
                continue
            read.append(line)
            expressions = path.stem == "expressions"
            whole = line.endswith(";") or (expressions and "\n".join(read).count("'") % 2 == 0)
            if whole:
                out.append(INDENT + again("\n".join(read), expressions=expressions))
                read = []
        path.write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    rewrite()
