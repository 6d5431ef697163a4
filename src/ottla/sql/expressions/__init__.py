"""Expressions: checked and typed by ksqlDB's rules, translated to Spark SQL and to Python."""

from ottla.sql.expressions.aggregated import (
    aggregate_calls,
    resolve_call,
    table_calls,
)
from ottla.sql.expressions.calls import Called
from ottla.sql.expressions.constants import constant
from ottla.sql.expressions.scope import (
    ORDER_BY_OFFSET,
    ORDER_BY_TIME,
    Scope,
    Value,
)
from ottla.sql.expressions.translate import (
    condition,
    to_spark,
    to_text,
    translate,
    typed,
)

__all__ = [
    "ORDER_BY_OFFSET",
    "ORDER_BY_TIME",
    "Called",
    "Scope",
    "Value",
    "aggregate_calls",
    "condition",
    "constant",
    "resolve_call",
    "table_calls",
    "to_spark",
    "to_text",
    "translate",
    "typed",
]
