"""Masks secrets in statements, before they are logged or sent in a response.

The config of a connector may contain passwords, and the server can't know which values these are.
As in ksqlDB all values except the connector's class are masked.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.sql.syntax.statement_format import format_statement
from ottla.sql.syntax.statements import CreateConnector, Explain, Statement

HIDDEN: Final = "[string]"
CONNECTOR_CLASS: Final = "connector.class"


def mask_statement(statement: Statement) -> Statement:
    """The statement, with secrets masked in its text."""
    if isinstance(statement, CreateConnector):
        return replace(statement, text=_text(statement))
    inner = statement.statement if isinstance(statement, Explain) else None
    if isinstance(inner, CreateConnector):
        return replace(statement, text=f"EXPLAIN {_text(inner)}")
    return statement


def _text(statement: CreateConnector) -> str:
    shown = {
        name: value if name.lower() == CONNECTOR_CLASS else HIDDEN
        for name, value in statement.properties.items()
    }
    return format_statement(replace(statement, properties=shown))
