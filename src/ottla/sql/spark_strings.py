"""Literals and casts as Spark SQL."""

from __future__ import annotations

from ottla.rows.types import SqlType


def spark_string(value: str) -> str:
    """A string literal; backslashes are escaped because Spark interprets them."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def spark_cast(text: str, type_: SqlType) -> str:
    return f"CAST({text} AS {type_.spark})"


def spark_null(type_: SqlType) -> str:
    return f"CAST(NULL AS {type_.spark})"
