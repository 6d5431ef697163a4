"""Calls of aggregates and table functions, in the form that stages need."""

from __future__ import annotations

from sqlglot import exp

from ottla.rows.types import SqlType
from ottla.sql.expressions import Scope, resolve, translate
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
    """An aggregate call, for Spark and for Python."""
    assert isinstance(call, exp.Anonymous)
    found = resolve(call, scope, translate)
    constant = found.function.constants_at(len(found.arguments))
    columns = [index for index in range(len(found.arguments)) if index not in constant]
    types = [found.call.types[index] for index in columns]
    assert all(types), call
    return AggregateCall(
        name=name,
        function=found.function.name,
        arguments=tuple(
            Text(found.call.texts[index], found.call.python[index]) for index in columns
        ),
        argument_types=tuple(type_ for type_ in types if type_ is not None),
        constants=tuple(found.call.constants[index] for index in sorted(constant)),
        type=found.type,
        spark="" if found.function.keeps_order else found.spark,
        aggregation=found.aggregation,
    )


def table_function_call(call: Expression, scope: Scope) -> tuple[SqlType, Text]:
    """The element type of a table function's result, and the text of the array of its results."""
    assert isinstance(call, exp.Anonymous)
    found = resolve(call, scope, translate)
    return found.type, found.text
