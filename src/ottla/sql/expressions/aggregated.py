"""The calls in an expression that a planner has to know of: aggregates and table functions."""

from __future__ import annotations

from sqlglot import exp

from ottla.sql.expressions.calls import Called, calls_of, resolve
from ottla.sql.expressions.scope import Scope
from ottla.sql.expressions.translate import translate
from ottla.sql.functions import BUILTIN, FunctionKind, Functions


def aggregate_calls(
    expression: exp.Expression, functions: Functions = BUILTIN
) -> list[exp.Anonymous]:
    return calls_of(expression, functions, FunctionKind.AGGREGATE)


def table_calls(expression: exp.Expression, functions: Functions = BUILTIN) -> list[exp.Anonymous]:
    return calls_of(expression, functions, FunctionKind.TABLE)


def resolve_call(node: exp.Anonymous, scope: Scope) -> Called:
    """One of them, resolved: its type, its text for Spark, its arguments, its Python form.

    The text of a table function is an array, whose elements are the rows."""
    return resolve(node, scope, translate)
