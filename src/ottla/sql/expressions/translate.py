"""Translates expressions: checks types by ksqlDB's rules, and makes the texts.

Every operation in a text is in parentheses or a call, so that nothing depends on precedence; names
are in back quotes. Two rules of ksqlDB apply everywhere. An error for a row gives NULL and does not
fail the query. A comparison with NULL is false, not NULL: NOT (A = 1) is true if A is NULL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias, cast

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.types import (
    BOOLEAN,
    STRING,
    SqlBaseType,
    SqlField,
    SqlType,
    array,
    map_of,
    spark_name,
)
from ottla.sql.casts import converted
from ottla.sql.expressions import operators
from ottla.sql.expressions.calls import call
from ottla.sql.expressions.coercion import coerced, meet, read_literals
from ottla.sql.expressions.literals import literal, negated
from ottla.sql.expressions.scope import Scope, Value, error_at, placed
from ottla.sql.spark_strings import spark_string
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.nodes import ArrayOf, MapOf, Pair, StructOf, TypeNode
from ottla.sql.text import Text, array_of, composed, null_text, struct_of


def translate(node: exp.Expression, scope: Scope) -> Value:
    """The type of an expression, and its text in both languages."""
    handler = HANDLERS.get(type(node))
    if handler is None:
        raise error_at(node, f"Unsupported expression: {format_expression(node)}")
    try:
        return handler(node, scope)
    except SqlError as error:
        raise placed(error, node) from None


def typed(expression: exp.Expression, scope: Scope) -> SqlType:
    """The type of an expression."""
    found = translate(expression, scope).type
    if found is None:
        raise error_at(
            expression,
            "Can't infer a type of null. Please explicitly cast it to a required type, "
            "e.g. CAST(null AS VARCHAR).",
        )
    return found


def to_spark(expression: exp.Expression, scope: Scope) -> str:
    """Spark SQL for an expression, for sessions on which `prepare_session` was called."""
    return translate(expression, scope).text.spark


def to_text(expression: exp.Expression, scope: Scope) -> Text:
    """An expression in both languages."""
    return translate(expression, scope).text


def condition(expression: exp.Expression, scope: Scope) -> Text:
    """The condition of WHERE or HAVING: a BOOLEAN, with NULL as false."""
    clause = scope.clause or "WHERE"
    found = translate(expression, scope)
    if found.type is not None and found.type != BOOLEAN:
        raise error_at(
            expression,
            f"Type error in {clause} expression: Should evaluate to boolean but is "
            f"{format_expression(expression)} ({found.type}) instead.",
        )
    return composed("coalesce({0}, false)", "({0} is True)", found.text)


def _column(node: exp.Expression, scope: Scope) -> Value:
    return scope.resolve(cast(exp.Column, node))


def _paren(node: exp.Expression, scope: Scope) -> Value:
    inner = translate(node.this, scope)
    text = composed("({0})", "({0})", inner.text)
    return Value(inner.type, text, inner.constant, inner.nullable)


def _boolean(node: exp.Expression, scope: Scope) -> Value:
    value = bool(node.this)
    return Value(BOOLEAN, Text("true" if value else "false", repr(value)), value, nullable=False)


def _null(node: exp.Expression, scope: Scope) -> Value:
    return Value(None, Text("NULL", "None"), None)


def _negative(node: exp.Expression, scope: Scope) -> Value:
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return negated(node.this)
    inner = translate(node.this, scope)
    if inner.type is None or not inner.type.is_number:
        raise error_at(node, f"Negation on unsupported type: {inner.type or 'null'}")
    python = f"negative({str(inner.type)!r})({{0}})"
    return Value(inner.type, composed("(- {0})", python, inner.text))


def _dereference(node: exp.Expression, scope: Scope) -> Value:
    inner = translate(node.this, scope)
    name = node.expression.name
    if inner.type is None or inner.type.kind is not SqlBaseType.STRUCT:
        raise error_at(
            node,
            f"Expected STRUCT type, got: {inner.type or 'null'}",
            remedy=f"{format_expression(node.this)} has no fields.",
        )
    for field in inner.type.fields:
        if field.name == name:
            text = inner.text
            spark = f"{text.spark}.{spark_name(name)}"
            return Value(field.type, Text(spark, f"field({text.python}, {name!r})"))
    fields = ", ".join(field.name for field in inner.type.fields)
    raise error_at(
        node,
        f"Could not find field '{name}' in '{format_expression(node.this)}'.",
        remedy=f"Its fields are {fields}.",
    )


def _subscript(node: exp.Expression, scope: Scope) -> Value:
    inner = translate(node.this, scope)
    (index_node,) = node.expressions
    index = translate(index_node, scope)
    if inner.type is None or inner.type.kind not in (SqlBaseType.ARRAY, SqlBaseType.MAP):
        raise error_at(node, f"Subscript expression is not supported for {inner.type or 'null'}")
    assert inner.type.element is not None
    if inner.type.kind is SqlBaseType.MAP:
        assert inner.type.key is not None
        key = coerced(index, inner.type.key, index_node)
        text = composed("element_at({0}, {1})", "entry({0}, {1})", inner.text, key)
        return Value(inner.type.element, text)
    if index.type is None or index.type.kind not in (SqlBaseType.INTEGER, SqlBaseType.BIGINT):
        raise error_at(index_node, f"Array index must be an INTEGER, not {index.type or 'null'}")
    # As in ksqlDB indexes start at 1, or count from the end; but Spark fails for index 0.
    spark = "try_element_at({0}, {1})"
    if not index.is_constant:
        spark = "try_element_at({0}, nullif(CAST({1} AS int), 0))"
    elif index.constant == 0:
        return Value(inner.type.element, null_text(inner.type.element))
    return Value(inner.type.element, composed(spark, "element({0}, {1})", inner.text, index.text))


def _cast(node: exp.Expression, scope: Scope) -> Value:
    inner = translate(node.this, scope)
    target = node.args["to"]
    assert isinstance(target, TypeNode)
    type_: SqlType = target.this
    if inner.type is None:
        return Value(type_, null_text(type_))
    return Value(type_, converted(inner.text, inner.type, type_))


def _case(node: exp.Expression, scope: Scope) -> Value:
    """CASE WHEN condition, and CASE value WHEN value."""
    subject = node.this
    branches = node.args["ifs"]
    default = node.args.get("default")
    results = [branch.args["true"] for branch in branches] + ([default] if default else [])
    conditions = []
    for branch in branches:
        condition_ = exp.EQ(this=subject.copy(), expression=branch.this) if subject else branch.this
        found = translate(condition_, scope)
        if found.type is not None and found.type != BOOLEAN:
            raise error_at(
                branch.this,
                "WHEN operand type should be boolean."
                f" Type for '{format_expression(branch.this)}' is {found.type}",
            )
        conditions.append(found.text)
    values = [translate(result, scope) for result in results]
    if all(value.type is None for value in values):
        raise error_at(
            node,
            "Invalid Case expression. All case branches have NULL type",
            remedy="Cast one of them, for example: CAST(NULL AS STRING).",
        )
    type_, texts = meet(values, results, "Invalid Case expression. Type for all branches")
    otherwise = texts.pop() if default else Text("", "None")
    pairs = list(zip(conditions, texts, strict=True))
    whens = " ".join(f"WHEN {when.spark} THEN {then.spark}" for when, then in pairs)
    ending = f" ELSE {otherwise.spark}" if default else ""
    python = "".join(f"{then.python} if {when.python} else " for when, then in pairs)
    return Value(type_, Text(f"CASE {whens}{ending} END", f"({python}{otherwise.python})"))


def _array_of(node: exp.Expression, scope: Scope) -> Value:
    if not node.expressions:
        raise error_at(
            node,
            "Array constructor cannot be empty. Please supply at least one element.",
            remedy="Or use NULL: CAST(NULL AS ARRAY<INT>).",
        )
    values = [translate(expression, scope) for expression in node.expressions]
    if all(value.type is None for value in values):
        raise error_at(
            node,
            "Cannot construct an array with all NULL elements. As a workaround, you may cast a "
            "NULL value to the desired type.",
        )
    type_, texts = meet(values, node.expressions)
    return Value(array(type_), array_of(texts), nullable=False)


def _map_of(node: exp.Expression, scope: Scope) -> Value:
    pairs: list[Pair] = node.expressions
    if not pairs:
        raise error_at(
            node, "Map constructor cannot be empty. Please supply at least one key value pair."
        )
    keys = [translate(pair.this, scope) for pair in pairs]
    values = [translate(pair.expression, scope) for pair in pairs]
    if all(key.type is None for key in keys):
        raise error_at(node, "Cannot construct a map with all NULL keys")
    if all(value.type is None for value in values):
        raise error_at(node, "Cannot construct a map with all NULL values")
    key, key_texts = meet(keys, [pair.this for pair in pairs])
    value, value_texts = meet(values, [pair.expression for pair in pairs])
    texts = list(zip(key_texts, value_texts, strict=True))
    # A NULL key would fail the query in Spark; as in JSON it becomes the text "null".
    sure = "coalesce({}, 'null')" if key == STRING else "{}"
    entries = [
        f"struct({sure.format(text.spark)} AS `key`, {two.spark} AS `value`)" for text, two in texts
    ]
    kept = f"filter(array({', '.join(entries)}), e -> e.`key` IS NOT NULL)"
    python = "".join(f", ({text.python}, {two.python})" for text, two in texts)
    instead = "'null'" if key == STRING else "None"
    text = Text(f"map_from_entries({kept})", f"map_of({instead}{python})")
    return Value(map_of(key, value), text, nullable=False)


def _struct_of(node: exp.Expression, scope: Scope) -> Value:
    fields: list[SqlField] = []
    texts: list[Text] = []
    for expression in node.expressions:
        value = translate(expression.expression, scope)
        name = expression.this.name
        if any(known.name == name for known in fields):
            raise error_at(node, "Duplicate field names found in STRUCT")
        type_ = value.type or typed(expression.expression, scope)
        fields.append(SqlField(name, type_))
        texts.append(value.text)
    made = struct_of((field.name, text) for field, text in zip(fields, texts, strict=True))
    return Value(SqlType(SqlBaseType.STRUCT, fields=tuple(fields)), made, nullable=False)


def _like(node: exp.Expression, scope: Scope, escape: str = "") -> Value:
    value, pattern = translate(node.this, scope), translate(node.expression, scope)
    for part, part_node in ((value, node.this), (pattern, node.expression)):
        if part.type is not None and part.type != STRING:
            raise error_at(part_node, f"LIKE needs STRINGs, not {part.type}")
    if escape:
        matches = f"{{0}} LIKE {{1}} ESCAPE {spark_string(escape)}"
    else:
        # Spark's default escape character is the backslash; ksqlDB has none.
        matches = "{0} LIKE replace({1}, '\\\\', '\\\\\\\\')"
    python = f"like({{0}}, {{1}}, {escape!r})"
    text = composed(f"coalesce(({matches}), false)", python, value.text, pattern.text)
    return Value(BOOLEAN, text, nullable=False)


def _escape(node: exp.Expression, scope: Scope) -> Value:
    character = node.expression.name
    if len(character) != 1:
        raise error_at(node, f"Expected exactly 1 character escape but got: {character}")
    return _like(node.this, scope, character)


def _lambda(node: exp.Expression, scope: Scope) -> Value:
    raise error_at(node, "A lambda can only be an argument of TRANSFORM, FILTER or REDUCE.")


def _call(node: exp.Expression, scope: Scope) -> Value:
    return call(cast(exp.Anonymous, node), scope, translate)


def _arithmetic(node: exp.Expression, scope: Scope) -> Value:
    left, right = translate(node.this, scope), translate(node.expression, scope)
    return operators.arithmetic(node, left, right, depth=scope.depth)


def _logic(node: exp.Expression, scope: Scope) -> Value:
    left, right = translate(node.this, scope), translate(node.expression, scope)
    return operators.logic(node, left, right, depth=scope.depth)


def _compare(node: exp.Expression, scope: Scope) -> Value:
    return operators.compare(node, translate(node.this, scope), translate(node.expression, scope))


def _not(node: exp.Expression, scope: Scope) -> Value:
    return operators.negation(node, translate(node.this, scope))


def _between(node: exp.Expression, scope: Scope) -> Value:
    parts = [node.this, node.args["low"], node.args["high"]]
    value, low, high = (translate(part, scope) for part in parts)
    from_low = operators.compare(
        exp.GTE(this=parts[0].copy(), expression=parts[1].copy()), value, low
    )
    to_high = operators.compare(
        exp.LTE(this=parts[0].copy(), expression=parts[2].copy()), value, high
    )
    text = composed("({0} AND {1})", "({0} and {1})", from_low.text, to_high.text)
    return Value(BOOLEAN, text, nullable=False)


def _in(node: exp.Expression, scope: Scope) -> Value:
    first = translate(node.this, scope)
    others = [read_literals(expression, first.type) for expression in node.expressions]
    values = [first, *(translate(other, scope) for other in others)]
    return operators.one_of([node.this, *others], values)


def _is(node: exp.Expression, scope: Scope) -> Value:
    if not isinstance(node.expression, exp.Null):
        raise error_at(node, "IS is only supported with NULL and DISTINCT FROM.")
    value = translate(node.this, scope)
    python = "({0} is None)" if value.nullable else "False"
    text = composed("({0} IS NULL)", python, value.text)
    return Value(BOOLEAN, text, nullable=False)


_Handler: TypeAlias = Callable[[exp.Expression, Scope], Value]

HANDLERS: Final[dict[type[exp.Expression], _Handler]] = {
    exp.Column: _column,
    exp.Paren: _paren,
    exp.Literal: lambda node, _: literal(cast(exp.Literal, node)),
    exp.Boolean: _boolean,
    exp.Null: _null,
    exp.Neg: _negative,
    exp.Dot: _dereference,
    exp.Bracket: _subscript,
    exp.Cast: _cast,
    exp.Case: _case,
    ArrayOf: _array_of,
    MapOf: _map_of,
    StructOf: _struct_of,
    exp.Like: _like,
    exp.Escape: _escape,
    exp.Lambda: _lambda,
    exp.Anonymous: _call,
    exp.Not: _not,
    exp.Between: _between,
    exp.In: _in,
    exp.Is: _is,
    **dict.fromkeys(operators.ARITHMETIC_OPERATORS, _arithmetic),
    **dict.fromkeys(operators.COMPARISON_OPERATORS, _compare),
    **dict.fromkeys(operators.LOGIC_OPERATORS, _logic),
}
