"""Expressions: type-checked by ksqlDB's rules, and translated to Spark SQL and to Python.

    translate.py    translate: an expression becomes a Value, which has a type and a Text
    scope.py        the columns that an expression may use
    calls.py        resolves calls of functions to signatures
    constants.py    expressions without columns, evaluated at once

Both texts give the same results as ksqlDB: errors for a row give NULL, and a comparison with NULL
is false. Nothing here may need Spark.
"""

from ottla.sql.expressions.calls import resolve
from ottla.sql.expressions.constants import constant
from ottla.sql.expressions.scope import ORDER_BY_OFFSET, ORDER_BY_TIME, Scope, Value
from ottla.sql.expressions.translate import condition, to_spark, to_text, translate, typed

__all__ = [
    "ORDER_BY_OFFSET",
    "ORDER_BY_TIME",
    "Scope",
    "Value",
    "condition",
    "constant",
    "resolve",
    "to_spark",
    "to_text",
    "translate",
    "typed",
]
