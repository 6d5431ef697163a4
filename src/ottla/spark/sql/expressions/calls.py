"""Calls of functions, lambdas among their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sqlglot import exp

from ottla.spark.sql.casts import cast_text
from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.expressions.coercion import as_literal
from ottla.spark.sql.expressions.operators import MOMENTS
from ottla.spark.sql.expressions.scope import NO_CONSTANT, Scope, Value, error_at
from ottla.spark.sql.functions.aggregation import Aggregation, only_streams
from ottla.spark.sql.functions.patterns import LambdaShape, Pattern, Shape, UnitShape, concrete
from ottla.spark.sql.functions.table import (
    Call,
    Function,
    FunctionKind,
    Functions,
    Match,
    lambda_variable,
)
from ottla.spark.sql.schema import ROWTIME
from ottla.spark.sql.spark_text import null_of
from ottla.spark.sql.syntax import format_expression
from ottla.spark.sql.syntax.nodes import IntervalUnit
from ottla.spark.sql.types import SqlType
from ottla.spark.sql.widening import can_widen

Translate: TypeAlias = Callable[[exp.Expression, Scope], Value]


@dataclass(frozen=True, slots=True)
class Called:
    """A call that has been resolved. `arguments` are its nodes: of COUNT(*) there are none."""

    function: Function
    match: Match
    call: Call
    arguments: Sequence[exp.Expression]

    @property
    def type(self) -> SqlType:
        return self.call.returns

    @property
    def spark(self) -> str:
        spark = self.match.signature.spark
        return self.call.filled(spark) if isinstance(spark, str) else spark(self.call)

    @property
    def columns(self) -> list[exp.Expression]:
        """The arguments that change from row to row: what an aggregate in Python takes."""
        fixed = self.function.constants_at(len(self.arguments))
        return [each for place, each in enumerate(self.arguments) if place not in fixed]

    @property
    def aggregation(self) -> Aggregation:
        """An aggregate in its Python form; `columns` are what `add` and `undo` take."""
        make = self.match.signature.aggregation
        assert make is not None, f"{self.function.name} is no aggregate"
        return make(self.call)


def call(node: exp.Anonymous, scope: Scope, translate: Translate) -> Value:
    function = scope.functions.get(node.name)
    if function.kind is FunctionKind.TABLE:
        raise error_at(node, f"Table function {function.name} can only be used in a SELECT clause.")
    if function.kind is FunctionKind.AGGREGATE and not scope.aggregates:
        raise error_at(
            node,
            f"Aggregate function {function.name} is not allowed here.",
            remedy="Aggregates belong in the SELECT and HAVING of a query with GROUP BY.",
        )
    if function.python is not None and scope.depth:
        raise error_at(
            node,
            f"Function '{function.name}' is computed in Python, and can't be used in a lambda.",
            remedy="EXPLODE the array first, and call the function on what comes out.",
        )
    called = resolve(node, scope, translate)
    return Value(called.type, called.spark)


def resolve(node: exp.Anonymous, scope: Scope, translate: Translate) -> Called:
    """The function and signature that a call means, and its arguments made ready."""
    function = scope.functions.get(node.name)
    is_aggregate = function.kind is FunctionKind.AGGREGATE
    if is_aggregate and scope.table and not function.on_tables:
        raise only_streams(function.name)
    inner = replace(scope, aggregates=False) if is_aggregate else scope
    arguments = _arguments(node, is_aggregate)
    values = [_translated(each, inner, translate) for each in arguments]
    match = _matched(node.name, values, scope)
    texts = []
    for value, pattern in zip(values, match.parameters, strict=True):
        texts.append(_argument(value, pattern, match, inner, translate))
    types = [each.type if isinstance(each, Value) else None for each in values]
    returns = match.return_type(types)
    _check_constants(function, arguments, values)
    made = Call(
        [text if text is not None else null_of(returns) for text in texts],
        [found or given for found, given in zip(match.parameter_types(), types, strict=True)],
        returns,
        [_constant(each) for each in values],
        scope.order,
        scope.settings,
        scope.depth,
    )
    return Called(function, match, made, arguments)


def _arguments(node: exp.Anonymous, is_aggregate: bool) -> list[exp.Expression]:
    """COUNT(*) and COUNT() count rows; any other aggregate without an argument is of ROWTIME."""
    arguments = [each for each in node.expressions if not isinstance(each, exp.Star)]
    if is_aggregate and not arguments and node.name != "COUNT":
        return [exp.Column(this=exp.Identifier(this=ROWTIME))]
    return arguments


_Given: TypeAlias = Value | exp.Lambda | IntervalUnit


def _translated(node: exp.Expression, scope: Scope, translate: Translate) -> _Given:
    if isinstance(node, exp.Lambda | IntervalUnit):
        return node
    return translate(node, scope)


def _matched(name: str, values: Sequence[_Given], scope: Scope) -> Match:
    shapes = [_shape(each) for each in values]
    try:
        return scope.functions.resolve(name, shapes)
    except SqlError:
        read = _moments(values, shapes)
        if read == shapes:
            raise
    return scope.functions.resolve(name, read)


def _moments(values: Sequence[_Given], shapes: list[Shape]) -> list[Shape]:
    """GREATEST(day, '2024-02-29'): text beside a date or a time is read as one."""
    moments = {e for e in shapes if isinstance(e, SqlType) and e.kind in MOMENTS}
    if len(moments) != 1:
        return shapes
    (moment,) = moments
    return [
        as_literal(each, moment) if isinstance(each, Value) and each.type else shape
        for each, shape in zip(values, shapes, strict=True)
    ]


def _shape(given: _Given) -> Shape:
    if isinstance(given, exp.Lambda):
        return LambdaShape(len(given.expressions))
    return UnitShape() if isinstance(given, IntervalUnit) else given.type


def _constant(given: _Given) -> Any:
    if isinstance(given, IntervalUnit):
        return given.name
    return given.constant if isinstance(given, Value) else NO_CONSTANT


def _argument(
    given: _Given, pattern: Pattern, match: Match, scope: Scope, translate: Translate
) -> str | None:
    """An argument's text, cast to its parameter; None for a NULL that the result gives a type."""
    if isinstance(given, IntervalUnit):
        return str(given.name)
    if isinstance(given, exp.Lambda):
        return _lambda(given, pattern, match, scope, translate)
    wanted = concrete(pattern, match.bound)
    if given.type is None:
        return null_of(wanted) if wanted else None
    return cast_text(given.text, given.type, wanted) if wanted else given.text


def _lambda(
    node: exp.Lambda, pattern: Pattern, match: Match, scope: Scope, translate: Translate
) -> str:
    """The body, in a scope where each argument has a name of our own; its type binds the result.

    Only the body: the function knows what Spark's lambda looks like."""
    variables = {}
    for place, (name, inner) in enumerate(zip(node.expressions, pattern.inner, strict=False)):
        type_ = concrete(inner, match.bound)
        if type_ is None:
            raise error_at(
                node, f"The type of {name.name} in {format_expression(node)} is unknown."
            )
        variables[name.name] = (type_, _variable(match, scope.depth, place))
    body = translate(node.this, scope.within(variables))
    result = pattern.inner[-1]
    if body.type is None:
        return "NULL"
    known = concrete(result, match.bound)
    if known is None:
        match.bound.bind(result.name, body.type)
        return body.text
    if not can_widen(body.type, known):
        raise error_at(
            node,
            f"The lambda {format_expression(node)} gives {body.type}, and {known} is needed.",
            remedy=f"CAST what it gives to {known}, or cast the state that it begins with.",
        )
    return cast_text(body.text, body.type, known)


def _variable(match: Match, depth: int, place: int) -> str:
    if not match.signature.variables:
        return lambda_variable(depth, place)
    first, second = lambda_variable(depth, 0), lambda_variable(depth, 1)
    return match.signature.variables[place].format(v0=first, v1=second)


def _check_constants(
    function: Function, arguments: Sequence[exp.Expression], values: Sequence[_Given]
) -> None:
    """Arguments of an aggregate that set it up must be literals."""
    for place, (node, given) in enumerate(zip(arguments, values, strict=True)):
        if place in function.constants_at(len(values)) and _constant(given) is NO_CONSTANT:
            raise error_at(
                node,
                f"Parameter {place + 1} passed to function {function.name} must be a literal "
                f"constant, but was expression: '{format_expression(node)}'",
            )


def calls_of(
    expression: exp.Expression, functions: Functions, kind: FunctionKind
) -> list[exp.Anonymous]:
    """The calls of aggregates, or of table functions, in an expression, outermost only."""
    found: list[exp.Anonymous] = []

    def look(node: exp.Expression) -> None:
        if isinstance(node, exp.Anonymous):
            function = functions.find(node.name)
            if function is not None and function.kind is kind:
                found.append(node)
                return
        for each in node.iter_expressions():
            look(each)

    look(expression)
    return found
