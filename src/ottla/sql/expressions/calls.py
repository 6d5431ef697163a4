"""Calls of functions, including those with lambdas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import ROWTIME
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.casts import converted
from ottla.sql.expressions.coercion import as_literal
from ottla.sql.expressions.operators import ARITHMETIC_OPERATORS, MOMENTS
from ottla.sql.expressions.scope import NO_CONSTANT, Scope, Value, error_at
from ottla.sql.functions.function_registry import (
    Call,
    Function,
    FunctionKind,
    SignatureMatch,
    lambda_variable,
)
from ottla.sql.functions.patterns import LambdaShape, Shape, TypePattern, UnitShape, concrete
from ottla.sql.functions.udaf import Udaf, only_streams
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.nodes import IntervalUnit
from ottla.sql.text import Text, null_text
from ottla.sql.widening import can_widen

Translate: TypeAlias = Callable[[exp.Expression, Scope], Value]


@dataclass(frozen=True, slots=True)
class ResolvedCall:
    """A call with its signature. `arguments` are nodes; COUNT(*) has none."""

    function: Function
    match: SignatureMatch
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
    def python(self) -> str:
        """The call in Python, where `UCASE_0` is the first signature of UCASE."""
        index = self.function.signatures.index(self.match.signature)
        name = f"{self.function.name}_{index}"
        form = self.match.signature.python
        if form is not None and form.by_types:
            types = (self.call.returns, *self.call.types)
            shown = (repr(str(type_)) if type_ is not None else "None" for type_ in types)
            name = f"{name}({', '.join(shown)})"
        return f"{name}({', '.join(self.call.python)})"

    @property
    def text(self) -> Text:
        return Text(self.spark, self.python)

    @property
    def columns(self) -> list[exp.Expression]:
        """The arguments that are not literals, which an aggregate in Python takes."""
        fixed = self.function.constants_at(len(self.arguments))
        return [argument for index, argument in enumerate(self.arguments) if index not in fixed]

    @property
    def aggregation(self) -> Udaf:
        """The aggregate in Python; `add` and `undo` take the `columns`."""
        make = self.match.signature.aggregation
        assert make is not None, f"{self.function.name} is not an aggregate"
        return make(self.call)


def call(node: exp.Anonymous, scope: Scope, translate: Translate) -> Value:
    function = scope.functions.get(node.name)
    if function.kind is FunctionKind.TABLE:
        raise error_at(node, f"Table function {function.name} can only be used in a SELECT clause.")
    if function.kind is FunctionKind.AGGREGATE and not scope.aggregates:
        raise error_at(
            node,
            f"Aggregate function {function.name} is not allowed here.",
            remedy="Use aggregates in the SELECT and HAVING of a query with GROUP BY.",
        )
    if function.python is not None and scope.depth and scope.spark:
        raise error_at(
            node,
            f"Function '{function.name}' is implemented in Python, and can't be used in a lambda.",
            remedy="EXPLODE the array first, and call the function on its elements.",
        )
    called = resolve(node, scope, translate)
    text = called.text
    if (
        function.name == "TRANSFORM"
        and type(_bare(called.arguments[-1].this)) in ARITHMETIC_OPERATORS
    ):
        text = text._replace(spark=_unless_null_in(text.spark, called.type))
    return Value(called.type, text)


def _unless_null_in(spark: str, type_: SqlType) -> str:
    """In a lambda, arithmetic with NULL makes the whole array or map NULL, as in ksqlDB."""
    values = "__t" if type_.kind is SqlBaseType.ARRAY else "map_values(__t)"
    kept = f"filter(array({spark}), __t -> NOT exists({values}, __e -> __e IS NULL))"
    return f"get({kept}, 0)"


def _bare(node: exp.Expression) -> exp.Expression:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def resolve(node: exp.Anonymous, scope: Scope, translate: Translate) -> ResolvedCall:
    """Find the function and signature of a call, and translate its arguments."""
    function = scope.functions.get(node.name)
    is_aggregate = function.kind is FunctionKind.AGGREGATE
    if is_aggregate and scope.table and not function.on_tables:
        raise only_streams(function.name)
    inner = replace(scope, aggregates=False) if is_aggregate else scope
    arguments = _arguments(node, is_aggregate)
    values = [_translated(argument, inner, translate) for argument in arguments]
    match = _matched(node.name, values, scope)
    texts = []
    for value, pattern in zip(values, match.parameters, strict=True):
        texts.append(_argument(value, pattern, match, inner, translate))
    types = [value.type if isinstance(value, Value) else None for value in values]
    returns = match.return_type(types)
    _check_constants(function, arguments, values)
    known = [text if text is not None else null_text(returns) for text in texts]
    made = Call(
        [text.spark for text in known],
        [found or given for found, given in zip(match.parameter_types(), types, strict=True)],
        returns,
        [_constant(value) for value in values],
        scope.order,
        scope.settings,
        scope.depth,
        [text.python for text in known],
    )
    return ResolvedCall(function, match, made, arguments)


def _arguments(node: exp.Anonymous, is_aggregate: bool) -> list[exp.Expression]:
    """The arguments. COUNT(*) and COUNT() count rows; other aggregates default to ROWTIME."""
    arguments = [
        expression for expression in node.expressions if not isinstance(expression, exp.Star)
    ]
    if is_aggregate and not arguments and node.name != "COUNT":
        return [exp.Column(this=exp.Identifier(this=ROWTIME))]
    return arguments


_Given: TypeAlias = Value | exp.Lambda | IntervalUnit


def _translated(node: exp.Expression, scope: Scope, translate: Translate) -> _Given:
    if isinstance(node, exp.Lambda | IntervalUnit):
        return node
    return translate(node, scope)


def _matched(name: str, values: Sequence[_Given], scope: Scope) -> SignatureMatch:
    shapes = [_shape(value) for value in values]
    try:
        return scope.functions.resolve(name, shapes)
    except SqlError:
        read = _moments(values, shapes)
        if read == shapes:
            raise
    return scope.functions.resolve(name, read)


def _moments(values: Sequence[_Given], shapes: list[Shape]) -> list[Shape]:
    """In GREATEST(day, '2024-02-29') the literal is converted to a date."""
    moments = {e for e in shapes if isinstance(e, SqlType) and e.kind in MOMENTS}
    if len(moments) != 1:
        return shapes
    (moment,) = moments
    return [
        as_literal(value, moment) if isinstance(value, Value) and value.type else shape
        for value, shape in zip(values, shapes, strict=True)
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
    given: _Given, pattern: TypePattern, match: SignatureMatch, scope: Scope, translate: Translate
) -> Text | None:
    """The text of an argument, cast to its parameter's type; None for a NULL without a type."""
    if isinstance(given, IntervalUnit):
        return Text(str(given.name), repr(given.name))
    if isinstance(given, exp.Lambda):
        return _lambda(given, pattern, match, scope, translate)
    wanted = concrete(pattern, match.bound)
    if given.type is None:
        return null_text(wanted) if wanted else None
    return converted(given.text, given.type, wanted) if wanted else given.text


def _lambda(
    node: exp.Lambda,
    pattern: TypePattern,
    match: SignatureMatch,
    scope: Scope,
    translate: Translate,
) -> Text:
    """The text of a lambda; the type of its body binds the result. Arguments get unique names.

    For Spark it is the body only: the function's text has Spark's lambda around it."""
    variables = {}
    arguments = []
    for index, (name, inner) in enumerate(zip(node.expressions, pattern.inner, strict=False)):
        type_ = concrete(inner, match.bound)
        if type_ is None:
            raise error_at(
                node, f"The type of {name.name} in {format_expression(node)} is unknown."
            )
        argument = lambda_variable(scope.depth, index)
        arguments.append(argument)
        variables[name.name] = (type_, Text(_variable(match, scope.depth, index), argument))
    body = _body(node, pattern, match, translate(node.this, scope.within(variables)))
    return Text(body.spark, f"(lambda {', '.join(arguments)}: {body.python})")


def _body(node: exp.Lambda, pattern: TypePattern, match: SignatureMatch, body: Value) -> Text:
    result = pattern.inner[-1]
    if body.type is None:
        return body.text
    known = concrete(result, match.bound)
    if known is None:
        match.bound.bind(result.name, body.type)
        return body.text
    if not can_widen(body.type, known):
        raise error_at(
            node,
            f"The lambda {format_expression(node)} gives {body.type}, and {known} is needed.",
            remedy=f"CAST its result to {known}, or cast the initial state.",
        )
    return converted(body.text, body.type, known)


def _variable(match: SignatureMatch, depth: int, index: int) -> str:
    if not match.signature.variables:
        return lambda_variable(depth, index)
    first, second = lambda_variable(depth, 0), lambda_variable(depth, 1)
    return match.signature.variables[index].format(v0=first, v1=second)


def _check_constants(
    function: Function, arguments: Sequence[exp.Expression], values: Sequence[_Given]
) -> None:
    """Parameters that configure an aggregate must be literals."""
    for index, (node, given) in enumerate(zip(arguments, values, strict=True)):
        if index in function.constants_at(len(values)) and _constant(given) is NO_CONSTANT:
            raise error_at(
                node,
                f"Parameter {index + 1} passed to function {function.name} must be a literal "
                f"constant, but was expression: '{format_expression(node)}'",
            )
