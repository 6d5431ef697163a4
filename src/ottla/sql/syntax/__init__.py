"""The language: text to statements and back, without Spark and without a catalog.

    tokens.py        text to tokens, and text to the texts of statements
    parser.py        tokens to statements; each kind of statement has a function that reads it
    statements.py    what a statement is; expressions are sqlglot's trees with the nodes of nodes.py
    statement_format.py, expression_format.py    statements back to text

`beyond.py` reads pull queries that need Spark's grammar. Errors have a position in the text and a
remedy (`mistakes.py`). Modules are imported on first use: importing sqlglot takes a third of a
second, and the shell's prompt needs the tokens only.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.sql.syntax.beyond import parse_beyond
    from ottla.sql.syntax.expression_format import format_expression
    from ottla.sql.syntax.parser import parse, parse_expression, parse_type
    from ottla.sql.syntax.statement_format import format_query, format_statement
    from ottla.sql.syntax.tokens import split_statements

__all__ = [
    "format_expression",
    "format_query",
    "format_statement",
    "parse",
    "parse_beyond",
    "parse_expression",
    "parse_type",
    "split_statements",
]
_MODULES: Final = {
    "format_expression": "expression_format",
    "format_query": "statement_format",
    "format_statement": "statement_format",
    "parse": "parser",
    "parse_beyond": "beyond",
    "parse_expression": "parser",
    "parse_type": "parser",
    "split_statements": "tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
