"""The select list: what each column of the result is called, and which of them are its key."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, Role
from ottla.rows.types import Kind, SqlType
from ottla.sql.expressions import typed
from ottla.sql.plan.names import MADE, Named, Names, at, plain_text, reference, scope_of
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Expression, Query, SelectItem

RESERVED: Final = frozenset({*PSEUDO_COLUMNS, *WINDOW_BOUNDS})
AS_VALUE: Final = "AS_VALUE"


@dataclass(frozen=True, slots=True)
class Item:
    """One column of the result: its name and what it is, bound."""

    name: str
    expression: Expression
    given: bool = False
    """The name was written in the statement."""
    role: Role = Role.VALUE
    key_place: int = -1
    """Which column of the key it is."""
    starred: bool = False
    """It is one of all fields of a STRUCT, or comes with `*`."""


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
    if query.partition_by and any(each.star_of == "" for each in query.select):
        items = _partitioned_star(items, query, names)
    taken = {each.name for each in items if each.name}
    taken.update(name for each in names.relations for name in each.columns)
    generated = (f"KSQL_COL_{number}" for number in range(len(items) + len(taken) + 1))
    free = (name for name in generated if name not in taken)
    named = [each if each.name else replace(each, name=next(free)) for each in items]
    named = _numbered(named, {name for each in names.relations for name in each.columns})
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


def star_columns(relation: Named, *, with_bounds: bool) -> list[str]:
    """What `*` is of a relation: its columns, and the bounds of its windows behind the key."""
    columns = list(relation.columns)
    if with_bounds and relation.source.is_windowed:
        keys = len(relation.source.schema.key)
        columns[keys:keys] = WINDOW_BOUNDS
    return columns


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
    elif names.join_key in names.made:
        yield Item(names.join_key, reference(MADE, names.join_key))
    for each in relations:
        prefix = f"{each.alias}_" if names.joined else ""
        with_bounds = transient or names.joined
        for name in star_columns(each, with_bounds=with_bounds):
            yield Item(f"{prefix}{name}", reference(each.alias, name))


def _numbered(items: list[Item], columns: set[str]) -> list[Item]:
    """A field that would have the name of a column, of the sources' or of another one here, has a
    number: FIELD_1, FIELD_2."""
    fields = [not each.given and isinstance(each.expression, exp.Dot) for each in items]
    taken = columns | {e.name for e, is_field in zip(items, fields, strict=True) if not is_field}
    found: list[Item] = []
    for each, is_field in zip(items, fields, strict=True):
        name = each.name
        if is_field and not each.starred:
            choices = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(1)))
            name = next(choice for choice in choices if choice not in taken)
            taken.add(name)
        found.append(replace(each, name=name))
    return found


def _partitioned_star(items: list[Item], query: Query, names: Names) -> list[Item]:
    """`SELECT * ... PARTITION BY`: the new key is among all columns, and the old one, which is no
    key any more, is the last of them."""
    by = [names.bind(each, "PARTITION BY") for each in query.partition_by]
    if names.joined:  # as in ksqlDB, whose joins carry ROWTIME and its like of each side along
        items = [*items, *_pseudo_columns(names)]
    there = [each.expression for each in items]
    new = [each for each in by if each not in there and not isinstance(each, exp.Null)]
    old = [
        reference(each.alias, column.name)
        for each in names.relations
        for column in each.source.schema.key
    ]
    last = [each for each in items if each.expression in old and each.expression not in by]
    rest = [each for each in items if each not in last]
    # ROWTIME and the like may be the key under their own names here, though nowhere else.
    made = (Item(default_name(each, names), each, starred=True) for each in new)
    return [*made, *rest, *last]


def _pseudo_columns(names: Names) -> Iterator[Item]:
    for each in names.relations:
        for name in PSEUDO_COLUMNS:
            yield Item(f"{each.alias}_{name}", reference(each.alias, name))


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
        yield Item(each.name, exp.Dot(this=of.copy(), expression=field), starred=True)


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
        if each.name in RESERVED and not transient and not each.starred:
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
    marked = [replace(each, role=Role.VALUE) for each in items]
    missing: list[KeyColumn] = []
    for number, column in enumerate(key.columns):
        place = _place_of(items, column, sink)
        if place is None:
            missing.append(column)
        else:
            marked[place] = replace(marked[place], role=Role.KEY, key_place=number)
    if missing and sink is not None:
        raise _missing(missing, key.what, sink)
    stripped = [replace(each, expression=_value(each.expression)) for each in marked]
    if sink is None:
        return stripped
    keys = [each for each in stripped if each.role is Role.KEY]
    keys.sort(key=lambda each: each.key_place)
    return keys + [each for each in stripped if each.role is not Role.KEY]


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
