"""Formats expressions as text, with parentheses only where they are needed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from sqlglot import exp

from ottla.rows.types import quoted
from ottla.sql.syntax import nodes

# Precedence, loosest first. An operand that binds looser than its position requires gets
# parentheses.
_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _SIGN, _REACH = range(8)

_BINARY: Final[Mapping[type[exp.Expression], tuple[str, int, int, int]]] = {
    # the operator, its level, and the levels that its left and its right side require
    exp.Or: ("OR", _OR, _OR, _OR),
    exp.And: ("AND", _AND, _AND, _AND),
    exp.EQ: ("=", _COMPARE, _SUM, _SUM),
    exp.NEQ: ("<>", _COMPARE, _SUM, _SUM),
    exp.LT: ("<", _COMPARE, _SUM, _SUM),
    exp.LTE: ("<=", _COMPARE, _SUM, _SUM),
    exp.GT: (">", _COMPARE, _SUM, _SUM),
    exp.GTE: (">=", _COMPARE, _SUM, _SUM),
    exp.NullSafeNEQ: ("IS DISTINCT FROM", _COMPARE, _SUM, _SUM),
    exp.NullSafeEQ: ("IS NOT DISTINCT FROM", _COMPARE, _SUM, _SUM),
    exp.Like: ("LIKE", _COMPARE, _SUM, _SUM),
    exp.Add: ("+", _SUM, _SUM, _PRODUCT),
    exp.Sub: ("-", _SUM, _SUM, _PRODUCT),
    exp.Mul: ("*", _PRODUCT, _PRODUCT, _SIGN),
    exp.Div: ("/", _PRODUCT, _PRODUCT, _SIGN),
    exp.Mod: ("%", _PRODUCT, _PRODUCT, _SIGN),
}
_PREDICATES: Final = {exp.Between: "BETWEEN", exp.In: "IN", exp.Like: "LIKE", exp.Escape: "LIKE"}


def format_expression(expression: exp.Expression, *, tight: bool = False) -> str:
    """The expression as text; with `tight`, comparisons, AND and OR get parentheses."""
    return _at(expression, _SUM if tight else _OR)


def string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _at(node: Any, level: int) -> str:
    """The node in a position that requires this level."""
    binary = _BINARY.get(type(node))
    if binary is not None:
        operator, own, left, right = binary
        written = f"{_at(node.this, left)} {operator} {_at(node.expression, right)}"
    else:
        write, own = _WRITERS.get(type(node), (_unknown, _OR))
        written = write(node)
    return written if own >= level else f"({written})"


def _unknown(node: Any) -> str:
    raise AssertionError(f"cannot format {type(node).__name__}")


def _listed(items: Any, level: int = _OR) -> str:
    return ", ".join(_at(item, level) for item in items)


def _not(node: exp.Not) -> str:
    inner = node.this
    if isinstance(inner, exp.Is):
        return f"{_at(inner.this, _SUM)} IS NOT NULL"
    for kind, word in _PREDICATES.items():
        if isinstance(inner, kind):
            return _predicate(inner, f"NOT {word}")
    return f"NOT {_at(inner, _NOT)}"


def _predicate(node: Any, word: str) -> str:
    if isinstance(node, exp.Escape):
        like = node.this
        return f"{_predicate(like, word)} ESCAPE {_at(node.expression, _REACH)}"
    left = _at(node.this, _SUM)
    if isinstance(node, exp.Between):
        low, high = _at(node.args["low"], _SUM), _at(node.args["high"], _SUM)
        return f"{left} {word} {low} AND {high}"
    if isinstance(node, exp.In):
        return f"{left} {word} ({_listed(node.expressions)})"
    return f"{left} {word} {_at(node.expression, _SUM)}"


def _negative(node: exp.Neg) -> str:
    inner = _at(node.this, _SIGN)
    # Two minus signs would start a comment.
    return f"- {inner}" if inner.startswith("-") else f"-{inner}"


def _column(node: exp.Column) -> str:
    table = node.args.get("table")
    name = quoted(node.this.this)
    return f"{quoted(table.this)}.{name}" if table else name


def _function(node: exp.Anonymous) -> str:
    name = str(node.this)
    named = f"`{name}`" if name in ("MAP", "STRUCT") else quoted(name)
    return f"{named}({_listed(node.expressions)})"


def _lambda(node: exp.Lambda) -> str:
    names = ", ".join(quoted(expression.this) for expression in node.expressions)
    parameters = names if len(node.expressions) == 1 else f"({names})"
    return f"{parameters} => {_at(node.this, _OR)}"


def _case(node: exp.Case) -> str:
    subject = f" {_at(node.this, _SUM)}" if node.this is not None else ""
    whens = " ".join(
        f"WHEN {_at(branch.this, _OR)} THEN {_at(branch.args['true'], _OR)}"
        for branch in node.args["ifs"]
    )
    default = node.args.get("default")
    otherwise = f" ELSE {_at(default, _OR)}" if default is not None else ""
    return f"CASE{subject} {whens}{otherwise} END"


def _pair(node: nodes.Pair) -> str:
    return f"{_at(node.this, _OR)} := {_at(node.expression, _OR)}"


_WRITERS: Final[Mapping[type[exp.Expression], tuple[Callable[[Any], str], int]]] = {
    exp.Not: (_not, _NOT),
    exp.Is: (lambda it: f"{_at(it.this, _SUM)} IS NULL", _COMPARE),
    exp.Between: (lambda it: _predicate(it, "BETWEEN"), _COMPARE),
    exp.In: (lambda it: _predicate(it, "IN"), _COMPARE),
    exp.Escape: (lambda it: _predicate(it, "LIKE"), _COMPARE),
    exp.Neg: (_negative, _SIGN),
    exp.Paren: (lambda it: f"({_at(it.this, _OR)})", _REACH),
    exp.Bracket: (
        lambda it: f"{_at(it.this, _REACH)}[{_at(it.expressions[0], _SUM)}]",
        _REACH,
    ),
    exp.Dot: (lambda it: f"{_at(it.this, _REACH)}->{quoted(it.expression.this)}", _REACH),
    exp.Column: (_column, _REACH),
    exp.Identifier: (lambda it: quoted(it.this), _REACH),
    exp.Anonymous: (_function, _REACH),
    exp.Lambda: (_lambda, _REACH),
    exp.Star: (lambda it: "*", _REACH),
    exp.Case: (_case, _REACH),
    exp.Cast: (lambda it: f"CAST({_at(it.this, _OR)} AS {it.args['to'].this})", _REACH),
    exp.Literal: (lambda it: string(it.this) if it.is_string else str(it.this), _REACH),
    exp.Boolean: (lambda it: str(it.this).upper(), _REACH),
    exp.Null: (lambda it: "NULL", _REACH),
    nodes.ArrayOf: (lambda it: f"ARRAY[{_listed(it.expressions)}]", _REACH),
    nodes.MapOf: (lambda it: f"MAP({_listed(it.expressions)})", _REACH),
    nodes.StructOf: (lambda it: f"STRUCT({_listed(it.expressions)})", _REACH),
    nodes.Pair: (_pair, _REACH),
    nodes.IntervalUnit: (lambda it: str(it.this), _REACH),
}
