"""Statements without their secrets: what may be answered, logged and shown to others.

The settings of a connector often have a password among them, and nobody here knows which of them
is one. As in ksqlDB all values are hidden but the connector's class.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from ottla.sql.syntax.statements import CreateConnector, Explain, Statement
from ottla.sql.syntax.writing import format_statement

HIDDEN: Final = "[string]"
CONNECTOR_CLASS: Final = "connector.class"


def masked(statement: Statement) -> Statement:
    """The same statement; its text tells less."""
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
