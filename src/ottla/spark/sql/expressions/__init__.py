"""Expressions: checked and typed by ksqlDB's rules, translated to Spark SQL."""

from ottla.spark.sql.expressions.aggregated import (
    aggregate_calls,
    resolve_call,
    table_calls,
)
from ottla.spark.sql.expressions.calls import Called
from ottla.spark.sql.expressions.constants import constant
from ottla.spark.sql.expressions.scope import (
    ORDER_BY_OFFSET,
    ORDER_BY_TIME,
    Scope,
    Value,
)
from ottla.spark.sql.expressions.translate import condition, to_spark, translate, typed

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
    "translate",
    "typed",
]
