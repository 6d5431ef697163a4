"""Pieces of Spark SQL."""

from __future__ import annotations

from ottla.rows.types import SqlType


def string(value: str) -> str:
    """A string literal; Spark reads backslashes in them."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def cast(text: str, type_: SqlType) -> str:
    return f"CAST({text} AS {type_.spark})"


def null_of(type_: SqlType) -> str:
    return f"CAST(NULL AS {type_.spark})"
