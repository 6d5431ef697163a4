"""Nodes of expressions that sqlglot does not have.

Besides these, expressions from `parse` have only the following nodes of sqlglot: Column (this:
Identifier, table: Identifier or None), Dot (`a->b`: this, expression: Identifier), Bracket (`a[1]`:
one expression, not shifted), Anonymous (every function: this: the name in upper case, expressions),
Lambda (this: body, expressions: Identifiers), Case, If (in Case), Cast (to: TypeNode), Literal,
Boolean, Null, And, Or, Not, EQ, NEQ, GT, GTE, LT, LTE, Is, NullSafeNEQ (IS DISTINCT FROM),
NullSafeEQ, Between, In, Like, Escape, Add, Sub, Mul, Div, Mod, Neg, Paren. If the position is
known, `meta` has `line` and `col`, which start at 1.
"""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class TypeNode(exp.Expression):
    """A type as an argument, of CAST for example: `this` is a SqlType."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}


class ArrayOf(exp.Expression):
    """`ARRAY[1, 2]`."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False}


class Pair(exp.Expression):
    """`'key' := value` in MAP(...); `NAME := value` in STRUCT(...): `this` is an Identifier."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class MapOf(exp.Expression):
    """`MAP('a' := 1)`: expressions are Pairs."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False}


class StructOf(exp.Expression):
    """`STRUCT(A := 1)`: expressions are Pairs."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": False}


class IntervalUnit(exp.Expression):
    """`MILLISECONDS` and the like as an argument: `this` is its name."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}
