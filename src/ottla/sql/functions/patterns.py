"""Type patterns: the types in signatures, and matching arguments with them.

A pattern is written as in ksqlDB's documentation: `ARRAY<T>`, `MAP<K, V>`, `DECIMAL` (of any
precision; `DECIMAL(6, 2)` of this one), `INTERVAL` (a unit such as DAYS), `LAMBDA(K, V) => U`,
`ANY`. A single capital letter is a variable, which is bound to the widest type of its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.rows.types import NUMBERS, SqlBaseType, SqlField, SqlType, array, decimal, map_of
from ottla.sql.widening import can_widen, common_type, decimal_of, widening_distance

SAME_DECIMAL: Final = "DECIMAL"


@dataclass(frozen=True, slots=True)
class TypePattern:
    """`inner`: the element of an ARRAY, key and value of a MAP, arguments and result of a
    LAMBDA."""

    name: str
    inner: tuple[TypePattern, ...] = ()
    names: tuple[str, ...] = ()
    size: SqlType | None = None

    def __str__(self) -> str:
        if self.name == "LAMBDA":
            arguments = ", ".join(str(parameter) for parameter in self.inner[:-1])
            return f"LAMBDA ({arguments}) => {self.inner[-1]}"
        if self.name == "STRUCT":
            fields = zip(self.names, self.inner, strict=True)
            return f"STRUCT<{', '.join(f'{name} {field}' for name, field in fields)}>"
        if self.size is not None:
            return str(self.size)
        inner = f"<{', '.join(str(inner) for inner in self.inner)}>" if self.inner else ""
        return self.name + inner

    @property
    def is_variable(self) -> bool:
        return len(self.name) == 1


@dataclass(frozen=True, slots=True)
class LambdaShape:
    """An argument that is a lambda, before the types of its arguments are known."""

    arity: int

    def __str__(self) -> str:
        return "LAMBDA"


@dataclass(frozen=True, slots=True)
class UnitShape:
    """An argument that is a unit of time."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


Shape: TypeAlias = SqlType | LambdaShape | UnitShape | None
"""What is known about an argument; None for an untyped NULL."""


@dataclass(slots=True)
class Bound:
    """The types of variables, bound while arguments are matched in order."""

    types: dict[str, SqlType] = field(default_factory=dict)

    def bind(self, name: str, type_: SqlType) -> int | None:
        """Bind a variable; return the cost of widening, or None if the type does not fit."""
        known = self.types.get(name)
        if known is None:
            self.types[name] = type_
            return 0
        wider = common_type(known, type_)
        if wider is None:
            return None
        self.types[name] = wider
        return 0 if wider == known == type_ else 1


def match(pattern: TypePattern, shape: Shape, bound: Bound) -> int | None:
    """The cost of an argument for a parameter: 0 for the exact type, None if it does not fit."""
    if pattern.name == "LAMBDA":
        fits = isinstance(shape, LambdaShape) and shape.arity == len(pattern.inner) - 1
        return 0 if fits else None
    if pattern.name == "INTERVAL":
        return 0 if isinstance(shape, UnitShape) else None
    if isinstance(shape, LambdaShape | UnitShape):
        return None
    if shape is None or pattern.name == "ANY":
        return 0
    if pattern.is_variable:
        return bound.bind(pattern.name, shape)
    return _match_type(pattern, shape, bound)


def _match_type(pattern: TypePattern, type_: SqlType, bound: Bound) -> int | None:
    if pattern.size is not None:
        fits = type_.is_number and can_widen(type_, pattern.size)
        return int(type_ != pattern.size) if fits else None
    if (
        pattern.name == SAME_DECIMAL
        and type_.kind in NUMBERS
        and type_.kind is not SqlBaseType.DOUBLE
    ):
        cost = bound.bind(SAME_DECIMAL, decimal_of(type_))
        return None if cost is None else cost + widening_distance(type_.kind, SqlBaseType.DECIMAL)
    if pattern.name in ("ARRAY", "MAP"):
        if type_.kind.value != pattern.name:
            return None
        inner = [type_.element] if pattern.name == "ARRAY" else [type_.key, type_.element]
        costs = [match(part, of, bound) for part, of in zip(pattern.inner, inner, strict=True)]
        return None if None in costs else sum(cost or 0 for cost in costs)
    if type_.kind.value == pattern.name:
        return 0
    wanted = SqlBaseType(pattern.name)
    if wanted in NUMBERS and type_.kind in NUMBERS and widening_distance(type_.kind, wanted) > 0:
        return widening_distance(type_.kind, wanted)
    return None


def concrete(pattern: TypePattern, bound: Bound) -> SqlType | None:
    """The type with variables replaced; None if one is unbound, because its arguments are NULL."""
    if pattern.size is not None:
        return pattern.size
    if pattern.is_variable or pattern.name == SAME_DECIMAL:
        return bound.types.get(pattern.name)
    if pattern.name in ("ANY", "LAMBDA", "INTERVAL"):
        return None
    inner = [concrete(part, bound) for part in pattern.inner]
    known = [inner_type for inner_type in inner if inner_type is not None]
    if len(known) < len(inner):
        return None
    if pattern.name == "ARRAY":
        return array(known[0])
    if pattern.name == "MAP":
        return map_of(known[0], known[1])
    if pattern.name == "STRUCT":
        fields = zip(pattern.names, known, strict=True)
        return SqlType(
            SqlBaseType.STRUCT, fields=tuple(SqlField(name, field) for name, field in fields)
        )
    return SqlType(SqlBaseType(pattern.name))


_TOKENS: Final = re.compile(r"\s*(=>|\.\.\.|[A-Za-z_0-9]+|[<>(),])")


class TypePatternReader:
    """Reads patterns from the text of a signature."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKENS.findall(text)
        self.position = 0

    @property
    def next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, token: str = "") -> str:
        found = self.next
        assert found, "unexpected end of signature"
        assert token in ("", found), f"{token} expected, not {found}"
        self.position += 1
        return found

    def pattern(self) -> TypePattern:
        name = self.take()
        if name == "LAMBDA":
            self.take("(")
            inner = self._list(")")
            self.take("=>")
            return TypePattern(name, (*inner, self.pattern()))
        if name == SAME_DECIMAL and self.next == "(":
            self.take("(")
            precision = int(self.take())
            self.take(",")
            size = decimal(precision, int(self.take()))
            self.take(")")
            return TypePattern(name, size=size)
        if self.next != "<":
            return TypePattern(name)
        self.take("<")
        if name == "STRUCT":
            names, fields = self._fields()
            return TypePattern(name, tuple(fields), tuple(names))
        return TypePattern(name, tuple(self._list(">")))

    def _list(self, end: str) -> Sequence[TypePattern]:
        found = [self.pattern()]
        while self.next == ",":
            self.take(",")
            found.append(self.pattern())
        self.take(end)
        return found

    def _fields(self) -> tuple[list[str], list[TypePattern]]:
        names, fields = [self.take()], [self.pattern()]
        while self.next == ",":
            self.take(",")
            names.append(self.take())
            fields.append(self.pattern())
        self.take(">")
        return names, fields
