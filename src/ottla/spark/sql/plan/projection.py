"""The select list: what each column of the result is called, and which of them are its key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.spark.sql.errors import SqlError
from ottla.spark.sql.expressions import typed
from ottla.spark.sql.plan.names import MADE, Named, Names, at, plain_text, reference, scope_of
from ottla.spark.sql.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, Role
from ottla.spark.sql.syntax import format_expression
from ottla.spark.sql.syntax.statements import Expression, Query, SelectItem
from ottla.spark.sql.types import Kind, SqlType

RESERVED: Final = frozenset({*PSEUDO_COLUMNS, *WINDOW_BOUNDS})
AS_VALUE: Final = "AS_VALUE"
JOIN_KEY: Final = "ROWKEY"
"""The key of a join whose sides may both be missing, or are joined by expressions."""


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the result: its name and what it is, bound."""

    name: str
    expression: Expression
    given: bool = False
    """The name was written in the statement."""
    role: Role = Role.VALUE


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the result's key. Any of `matches` in the select list stands for it."""

    matches: tuple[Expression, ...]
    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class Key:
    """What the result's key is made of; `what` says it in errors: "key column" and so on."""

    columns: tuple[KeyColumn, ...]
    what: str = "key column"


# -- the list, written out


def expand(query: Query, names: Names, *, transient: bool) -> list[Item]:
    """The select list with its stars written out and a name for each column."""
    items: list[Item] = []
    for each in query.select:
        items.extend(_expanded(each, names, transient=transient))
    taken = {each.name for each in items if each.name}
    generated = (f"KSQL_COL_{number}" for number in range(len(items) + len(taken) + 1))
    free = (name for name in generated if name not in taken)
    named = [each if each.name else replace(each, name=next(free)) for each in items]
    _check_names(named, transient=transient)
    return named


def _expanded(item: SelectItem, names: Names, *, transient: bool) -> Iterator[Item]:
    if item.star_of is None:
        assert item.expression is not None
        bound = names.bind(item.expression, "SELECT")
        name = item.alias or default_name(bound, names)
        yield Item(name, bound, given=bool(item.alias))
    elif isinstance(item.star_of, str):
        yield from _star(item.star_of, names, transient=transient)
    else:
        yield from _struct_star(names.bind(item.star_of, "SELECT"), names)


def _star(of: str, names: Names, *, transient: bool) -> Iterator[Item]:
    relations: Iterable[Named] = names.relations
    if of:
        found = names.find(of)
        if found is None:
            there = ", ".join(each.alias for each in names.relations)
            raise SqlError(
                f"'{of}' is not a valid stream/table name or alias.",
                remedy=f"Those of this query: {there}.",
            )
        relations = (found,)
    elif JOIN_KEY in names.made:
        yield Item(JOIN_KEY, reference(MADE, JOIN_KEY))
    for each in relations:
        prefix = f"{each.alias}_" if names.joined else ""
        columns = list(each.columns)
        if transient and each.source.is_windowed and not names.joined:
            keys = len(each.source.schema.key)
            columns[keys:keys] = WINDOW_BOUNDS
        for name in columns:
            yield Item(f"{prefix}{name}", reference(each.alias, name))


def _struct_star(of: Expression, names: Names) -> Iterator[Item]:
    found = typed(of, scope_of(names, plain_text))
    if found.kind is not Kind.STRUCT:
        raise at(
            of,
            f"Cannot expand {format_expression(of)}->*: it is {found}, not a STRUCT.",
            "Only the fields of a STRUCT can be written as ->*.",
        )
    for each in found.fields:
        field = exp.Identifier(this=each.name, quoted=False)
        yield Item(each.name, exp.Dot(this=of.copy(), expression=field))


def default_name(bound: Expression, names: Names) -> str:
    """The name of a column that was given none; "" where one has to be made up."""
    if isinstance(bound, exp.Column):
        prefix = f"{bound.table}_" if names.joined and names.clashes(bound.name) else ""
        return f"{prefix}{bound.name}"
    if isinstance(bound, exp.Dot):
        return str(bound.expression.name)
    return ""


def _check_names(items: list[Item], *, transient: bool) -> None:
    seen: set[str] = set()
    for each in items:
        if each.name in RESERVED and not transient:
            raise at(
                each.expression,
                f"Reserved column name in select: `{each.name}`. Please remove or alias the"
                " column.",
                f"For example: {each.name} AS {each.name}_OF_SOURCE.",
            )
        if each.name in seen and not transient:
            raise at(
                each.expression,
                f"The projection contains a duplicate column name: {each.name}",
                "Give one of them another name: ... AS NAME.",
            )
        seen.add(each.name)


# -- which of them are the key


def with_key(items: list[Item], key: Key, sink: str | None) -> list[Item]:
    """The items with their roles, key columns first; `sink` is None for a push query, whose
    order stays and whose key may be missing."""
    roles: dict[int, Role] = {}
    order: list[int] = []
    missing: list[KeyColumn] = []
    for column in key.columns:
        place = _place_of(items, column, sink)
        if place is None:
            missing.append(column)
        else:
            roles[place] = Role.KEY
            order.append(place)
    if missing and sink is not None:
        raise _missing(missing, key.what, sink)
    marked = [replace(each, role=roles.get(n, Role.VALUE)) for n, each in enumerate(items)]
    stripped = [replace(each, expression=_value(each.expression)) for each in marked]
    if sink is None:
        return stripped
    return [stripped[n] for n in order] + [e for e in stripped if e.role is not Role.KEY]


def _place_of(items: list[Item], column: KeyColumn, sink: str | None) -> int | None:
    for match in column.matches:
        places = [n for n, each in enumerate(items) if each.expression == match]
        if len(places) > 1 and sink is not None:
            aliases = " and ".join(f"`{items[n].name}`" for n in places)
            raise at(
                items[places[1]].expression,
                f"The projection contains a key column (`{column.name}`) more than once, aliased"
                f" as: {aliases}.",
                "Each key column must only be in the projection once. If you intended to copy the"
                " key into the value, then consider using the AS_VALUE function.",
            )
        if places:
            return places[0]
    return None


def _missing(missing: list[KeyColumn], what: str, sink: str) -> SqlError:
    first = missing[0]
    choices = [format_expression(each) for each in first.matches] or [first.name]
    if what == "join expression":
        text = f"{what}s {' or '.join(choices)}" if len(choices) > 1 else f"{what} {choices[0]}"
    else:
        names = [_short(each) for each in missing]
        text = f"{what}{'s' if len(names) > 1 else ''} {' and '.join(names)}"
    return SqlError(
        "Key missing from projection.\n"
        f"The query used to build `{sink}` must include the {text} in its projection (eg,"
        f" SELECT {choices[0] if what == 'join expression' else _short(first)}...).",
        remedy="Add it to the select list; AS_VALUE(...) copies a key into the value besides.",
    )


def _short(column: KeyColumn) -> str:
    match = column.matches[0] if column.matches else None
    if match is None or isinstance(match, exp.Column):
        return column.name
    return format_expression(match)


def _value(expression: Expression) -> Expression:
    """AS_VALUE says only that a copy of a key is no key."""
    if isinstance(expression, exp.Anonymous) and expression.name.upper() == AS_VALUE:
        return expression.expressions[0].copy() if expression.expressions else expression
    return expression
