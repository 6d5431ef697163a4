"""Calls of aggregates and table functions, as stages have them."""

from __future__ import annotations

from sqlglot import exp

from ottla.rows.types import SqlType
from ottla.sql.expressions import Scope, resolve_call
from ottla.sql.functions import BUILTIN, FunctionKind
from ottla.sql.plan.stages import AggregateCall
from ottla.sql.syntax.statements import Expression
from ottla.sql.text import Text


def is_aggregate(name: str) -> bool:
    return _is(name, FunctionKind.AGGREGATE)


def is_table_function(name: str) -> bool:
    return _is(name, FunctionKind.TABLE)


def _is(name: str, kind: FunctionKind) -> bool:
    found = BUILTIN.find(name)
    return found is not None and found.kind is kind


def aggregate_call(call: Expression, name: str, scope: Scope) -> AggregateCall:
    """The call of an aggregate, with what Spark and what Python needs for it."""
    assert isinstance(call, exp.Anonymous)
    found = resolve_call(call, scope)
    constant = found.function.constants_at(len(found.arguments))
    columns = [place for place in range(len(found.arguments)) if place not in constant]
    types = [found.call.types[place] for place in columns]
    assert all(types), call
    return AggregateCall(
        name=name,
        function=found.function.name,
        arguments=tuple(
            Text(found.call.texts[place], found.call.python[place]) for place in columns
        ),
        argument_types=tuple(each for each in types if each is not None),
        constants=tuple(found.call.constants[place] for place in sorted(constant)),
        type=found.type,
        spark=found.spark,
        aggregation=found.aggregation,
    )


def exploded_call(call: Expression, scope: Scope) -> tuple[SqlType, Text]:
    """The type of what a table function gives for a row, and the array that has all of it."""
    assert isinstance(call, exp.Anonymous)
    found = resolve_call(call, scope)
    return found.type, found.text
