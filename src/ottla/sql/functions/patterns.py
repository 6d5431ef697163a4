"""What a signature says about types, and whether arguments fit it.

A pattern is written as in ksqlDB's documentation: `ARRAY<T>`, `MAP<K, V>`, `DECIMAL` (of any size;
`DECIMAL(6, 2)` of that one), `INTERVAL` (a unit such as DAYS), `LAMBDA(K, V) => U`, `ANY`. One
capital letter stands for a type that the arguments decide; where several arguments have a word in
it, the widest wins.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from ottla.rows.types import NUMBERS, Field, Kind, SqlType, array, decimal, map_of
from ottla.sql.widening import can_widen, common_type, decimal_of, distance

SAME_DECIMAL: Final = "DECIMAL"


@dataclass(frozen=True, slots=True)
class Pattern:
    """`inner`: an ARRAY's element, a MAP's key and value, a LAMBDA's arguments and result."""

    name: str
    inner: tuple[Pattern, ...] = ()
    names: tuple[str, ...] = ()
    size: SqlType | None = None

    def __str__(self) -> str:
        if self.name == "LAMBDA":
            arguments = ", ".join(str(each) for each in self.inner[:-1])
            return f"LAMBDA ({arguments}) => {self.inner[-1]}"
        if self.name == "STRUCT":
            fields = zip(self.names, self.inner, strict=True)
            return f"STRUCT<{', '.join(f'{name} {each}' for name, each in fields)}>"
        if self.size is not None:
            return str(self.size)
        inner = f"<{', '.join(str(each) for each in self.inner)}>" if self.inner else ""
        return self.name + inner

    @property
    def is_variable(self) -> bool:
        return len(self.name) == 1


@dataclass(frozen=True, slots=True)
class LambdaShape:
    """An argument that is a lambda: all that is known of it before its arguments are."""

    arity: int

    def __str__(self) -> str:
        return "LAMBDA"


@dataclass(frozen=True, slots=True)
class UnitShape:
    """An argument that is a unit of time."""

    def __str__(self) -> str:
        return "INTERVALUNIT"


Shape: TypeAlias = SqlType | LambdaShape | UnitShape | None
"""What is known of an argument; None is a bare NULL."""


@dataclass(slots=True)
class Bound:
    """The types that letters stand for, as arguments are looked at one after the other."""

    types: dict[str, SqlType] = field(default_factory=dict)

    def bind(self, name: str, type_: SqlType) -> int | None:
        """What it costs to read the argument so; None where it does not fit."""
        known = self.types.get(name)
        if known is None:
            self.types[name] = type_
            return 0
        wider = common_type(known, type_)
        if wider is None:
            return None
        self.types[name] = wider
        return 0 if wider == known == type_ else 1


def match(pattern: Pattern, shape: Shape, bound: Bound) -> int | None:
    """What it costs to take the argument for that parameter: 0 for just it, None for never."""
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


def _match_type(pattern: Pattern, type_: SqlType, bound: Bound) -> int | None:
    if pattern.size is not None:
        fits = type_.is_number and can_widen(type_, pattern.size)
        return int(type_ != pattern.size) if fits else None
    if pattern.name == SAME_DECIMAL and type_.kind in NUMBERS and type_.kind is not Kind.DOUBLE:
        cost = bound.bind(SAME_DECIMAL, decimal_of(type_))
        return None if cost is None else cost + distance(type_.kind, Kind.DECIMAL)
    if pattern.name in ("ARRAY", "MAP"):
        if type_.kind.value != pattern.name:
            return None
        inner = [type_.element] if pattern.name == "ARRAY" else [type_.key, type_.element]
        costs = [match(each, of, bound) for each, of in zip(pattern.inner, inner, strict=True)]
        return None if None in costs else sum(each or 0 for each in costs)
    if type_.kind.value == pattern.name:
        return 0
    wanted = Kind(pattern.name)
    if wanted in NUMBERS and type_.kind in NUMBERS and distance(type_.kind, wanted) > 0:
        return distance(type_.kind, wanted)
    return None


def concrete(pattern: Pattern, bound: Bound) -> SqlType | None:
    """The pattern with its letters filled in; None where one is open (all its arguments NULL)."""
    if pattern.size is not None:
        return pattern.size
    if pattern.is_variable or pattern.name == SAME_DECIMAL:
        return bound.types.get(pattern.name)
    if pattern.name in ("ANY", "LAMBDA", "INTERVAL"):
        return None
    inner = [concrete(each, bound) for each in pattern.inner]
    known = [each for each in inner if each is not None]
    if len(known) < len(inner):
        return None
    if pattern.name == "ARRAY":
        return array(known[0])
    if pattern.name == "MAP":
        return map_of(known[0], known[1])
    if pattern.name == "STRUCT":
        fields = zip(pattern.names, known, strict=True)
        return SqlType(Kind.STRUCT, fields=tuple(Field(name, each) for name, each in fields))
    return SqlType(Kind(pattern.name))


_TOKENS: Final = re.compile(r"\s*(=>|\.\.\.|[A-Za-z_0-9]+|[<>(),])")


class PatternReader:
    """Reads patterns from the text of a signature."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKENS.findall(text)
        self.position = 0

    @property
    def next(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self, token: str = "") -> str:
        found = self.next
        assert found, "a signature that ends too early"
        assert token in ("", found), f"{token} expected, not {found}"
        self.position += 1
        return found

    def pattern(self) -> Pattern:
        name = self.take()
        if name == "LAMBDA":
            self.take("(")
            inner = self._list(")")
            self.take("=>")
            return Pattern(name, (*inner, self.pattern()))
        if name == SAME_DECIMAL and self.next == "(":
            self.take("(")
            precision = int(self.take())
            self.take(",")
            size = decimal(precision, int(self.take()))
            self.take(")")
            return Pattern(name, size=size)
        if self.next != "<":
            return Pattern(name)
        self.take("<")
        if name == "STRUCT":
            names, fields = self._fields()
            return Pattern(name, tuple(fields), tuple(names))
        return Pattern(name, tuple(self._list(">")))

    def _list(self, end: str) -> Sequence[Pattern]:
        found = [self.pattern()]
        while self.next == ",":
            self.take(",")
            found.append(self.pattern())
        self.take(end)
        return found

    def _fields(self) -> tuple[list[str], list[Pattern]]:
        names, fields = [self.take()], [self.pattern()]
        while self.next == ",":
            self.take(",")
            names.append(self.take())
            fields.append(self.pattern())
        self.take(">")
        return names, fields
