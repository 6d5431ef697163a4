"""The language: from text to statements, with no Spark and no catalog in sight.

What this door gives is imported when it is first asked for: sqlglot takes a third of a second, and
the shell needs no more than the scanner to be there.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.sql.syntax.beyond import parse_beyond
    from ottla.sql.syntax.parser import parse, parse_expression, parse_type
    from ottla.sql.syntax.scanner import split
    from ottla.sql.syntax.writing import format_query, format_statement
    from ottla.sql.syntax.writing_expressions import format_expression

__all__ = [
    "format_expression",
    "format_query",
    "format_statement",
    "parse",
    "parse_beyond",
    "parse_expression",
    "parse_type",
    "split",
]
_HOMES: Final = {
    "format_expression": "writing_expressions",
    "format_query": "writing",
    "format_statement": "writing",
    "parse": "parser",
    "parse_beyond": "beyond",
    "parse_expression": "parser",
    "parse_type": "parser",
    "split": "scanner",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
