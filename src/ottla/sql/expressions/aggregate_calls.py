"""Calls of aggregates and of table functions in an expression, for the planner."""

from __future__ import annotations

from sqlglot import exp

from ottla.sql.expressions.calls import ResolvedCall, calls_of, resolve
from ottla.sql.expressions.scope import Scope
from ottla.sql.expressions.translate import translate
from ottla.sql.functions import BUILTIN, FunctionKind, FunctionRegistry


def aggregate_calls(
    expression: exp.Expression, functions: FunctionRegistry = BUILTIN
) -> list[exp.Anonymous]:
    return calls_of(expression, functions, FunctionKind.AGGREGATE)


def table_calls(
    expression: exp.Expression, functions: FunctionRegistry = BUILTIN
) -> list[exp.Anonymous]:
    return calls_of(expression, functions, FunctionKind.TABLE)


def resolve_call(node: exp.Anonymous, scope: Scope) -> ResolvedCall:
    """Resolve such a call. The text of a table function is an array with a row per element."""
    return resolve(node, scope, translate)
