"""The projection: names of the result's columns, and which of them are its key."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import PSEUDO_COLUMNS, WINDOW_BOUNDS, Role
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.expressions import typed
from ottla.sql.plan.names import (
    MADE,
    AliasedSource,
    QueryNames,
    at,
    plain_text,
    reference,
    scope_of,
)
from ottla.sql.syntax import format_expression
from ottla.sql.syntax.statements import Expression, QueryBody, SelectItem

RESERVED: Final = frozenset({*PSEUDO_COLUMNS, *WINDOW_BOUNDS})
AS_VALUE: Final = "AS_VALUE"


@dataclass(frozen=True, slots=True)
class ProjectionItem:
    """One column of the result: its name and its bound expression."""

    name: str
    expression: Expression
    given: bool = False
    """The statement has an alias for it."""
    role: Role = Role.VALUE
    key_index: int = -1
    """Its position in the key."""
    starred: bool = False
    """It comes from `*` or from `->*`."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the result's key; each of `matches` in the select list is that column."""

    matches: tuple[Expression, ...]
    name: str
    type: SqlType


@dataclass(frozen=True, slots=True)
class ProjectionKey:
    """The key of the result; `what` is its name in errors, "key column" for example."""

    columns: tuple[KeyColumn, ...]
    what: str = "key column"


# -- expanding the list


def expand(query: QueryBody, names: QueryNames, *, transient: bool) -> list[ProjectionItem]:
    """The select list with stars expanded and a name for each column."""
    items: list[ProjectionItem] = []
    for item in query.select:
        items.extend(_expanded(item, names, transient=transient))
    if query.partition_by and any(item.star_of == "" for item in query.select):
        items = _partitioned_star(items, query, names)
    taken = {item.name for item in items if item.name}
    taken.update(name for relation in names.relations for name in relation.columns)
    generated = (f"KSQL_COL_{number}" for number in range(len(items) + len(taken) + 1))
    free = (name for name in generated if name not in taken)
    named = [item if item.name else replace(item, name=next(free)) for item in items]
    named = _numbered(named, {name for relation in names.relations for name in relation.columns})
    _check_names(named, transient=transient)
    return named


def _expanded(item: SelectItem, names: QueryNames, *, transient: bool) -> Iterator[ProjectionItem]:
    if item.star_of is None:
        assert item.expression is not None
        bound = names.bind(item.expression, "SELECT")
        name = item.alias or default_name(bound, names)
        yield ProjectionItem(name, bound, given=bool(item.alias))
    elif isinstance(item.star_of, str):
        yield from _star(item.star_of, names, transient=transient)
    else:
        yield from _struct_star(names.bind(item.star_of, "SELECT"), names)


def star_columns(relation: AliasedSource, *, with_bounds: bool) -> list[str]:
    """The columns for which `*` stands: those of the relation, with window bounds after the key."""
    columns = list(relation.columns)
    if with_bounds and relation.source.is_windowed:
        keys = len(relation.source.schema.key)
        columns[keys:keys] = WINDOW_BOUNDS
    return columns


def _star(of: str, names: QueryNames, *, transient: bool) -> Iterator[ProjectionItem]:
    relations: Iterable[AliasedSource] = names.relations
    if of:
        found = names.find(of)
        if found is None:
            there = ", ".join(relation.alias for relation in names.relations)
            raise SqlError(
                f"'{of}' is not a valid stream/table name or alias.",
                remedy=f"Names in this query: {there}.",
            )
        relations = (found,)
    elif names.join_key in names.made:
        yield ProjectionItem(names.join_key, reference(MADE, names.join_key))
    for relation in relations:
        prefix = f"{relation.alias}_" if names.joined else ""
        with_bounds = transient or names.joined
        for name in star_columns(relation, with_bounds=with_bounds):
            yield ProjectionItem(f"{prefix}{name}", reference(relation.alias, name))


def _numbered(items: list[ProjectionItem], columns: set[str]) -> list[ProjectionItem]:
    """Number a struct field whose name would clash with a column: FIELD_1, FIELD_2."""
    fields = [not item.given and isinstance(item.expression, exp.Dot) for item in items]
    taken = columns | {e.name for e, is_field in zip(items, fields, strict=True) if not is_field}
    found: list[ProjectionItem] = []
    for item, is_field in zip(items, fields, strict=True):
        name = item.name
        if is_field and not item.starred:
            choices = itertools.chain([name], (f"{name}_{n}" for n in itertools.count(1)))
            name = next(choice for choice in choices if choice not in taken)
            taken.add(name)
        found.append(replace(item, name=name))
    return found


def _partitioned_star(
    items: list[ProjectionItem], query: QueryBody, names: QueryNames
) -> list[ProjectionItem]:
    """`SELECT * ... PARTITION BY`: add the new key to the columns, and move the old key, which is a
    value column now, to the end."""
    by = [names.bind(expression, "PARTITION BY") for expression in query.partition_by]
    if names.joined:  # as in ksqlDB, whose joins keep the pseudo columns of both sides
        items = [*items, *_pseudo_columns(names)]
    there = [item.expression for item in items]
    new = [
        expression
        for expression in by
        if expression not in there and not isinstance(expression, exp.Null)
    ]
    old = [
        reference(relation.alias, column.name)
        for relation in names.relations
        for column in relation.source.schema.key
    ]
    last = [item for item in items if item.expression in old and item.expression not in by]
    rest = [item for item in items if item not in last]
    # Only here a column may be named ROWTIME or like another pseudo column.
    made = (
        ProjectionItem(default_name(expression, names), expression, starred=True)
        for expression in new
    )
    return [*made, *rest, *last]


def _pseudo_columns(names: QueryNames) -> Iterator[ProjectionItem]:
    for relation in names.relations:
        for name in PSEUDO_COLUMNS:
            yield ProjectionItem(f"{relation.alias}_{name}", reference(relation.alias, name))


def _struct_star(of: Expression, names: QueryNames) -> Iterator[ProjectionItem]:
    found = typed(of, scope_of(names, plain_text))
    if found.kind is not SqlBaseType.STRUCT:
        raise at(
            of,
            f"Cannot expand {format_expression(of)}->*: it is {found}, not a STRUCT.",
            "Use ->* with a STRUCT.",
        )
    for struct_field in found.fields:
        field = exp.Identifier(this=struct_field.name, quoted=False)
        yield ProjectionItem(
            struct_field.name, exp.Dot(this=of.copy(), expression=field), starred=True
        )


def default_name(bound: Expression, names: QueryNames) -> str:
    """The name of a column without alias; "" if one must be generated."""
    if isinstance(bound, exp.Column):
        prefix = f"{bound.table}_" if names.joined and names.clashes(bound.name) else ""
        return f"{prefix}{bound.name}"
    if isinstance(bound, exp.Dot):
        return str(bound.expression.name)
    return ""


def _check_names(items: list[ProjectionItem], *, transient: bool) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name in RESERVED and not transient and not item.starred:
            raise at(
                item.expression,
                f"Reserved column name in select: `{item.name}`. Please remove or alias the"
                " column.",
                f"For example: {item.name} AS {item.name}_OF_SOURCE.",
            )
        if item.name in seen and not transient:
            raise at(
                item.expression,
                f"The projection contains a duplicate column name: {item.name}",
                "Add an alias to one of them: ... AS NAME.",
            )
        seen.add(item.name)


# -- finding the key


def with_key(
    items: list[ProjectionItem], key: ProjectionKey, sink: str | None
) -> list[ProjectionItem]:
    """Assign roles, and move key columns to the front. `sink` is None for a push query, which keeps
    its order and may leave out the key."""
    marked = [replace(item, role=Role.VALUE) for item in items]
    missing: list[KeyColumn] = []
    for number, column in enumerate(key.columns):
        index = _index_of(items, column, sink)
        if index is None:
            missing.append(column)
        else:
            marked[index] = replace(marked[index], role=Role.KEY, key_index=number)
    if missing and sink is not None:
        raise _missing(missing, key.what, sink)
    stripped = [replace(item, expression=_value(item.expression)) for item in marked]
    if sink is None:
        return stripped
    keys = [item for item in stripped if item.role is Role.KEY]
    keys.sort(key=lambda item: item.key_index)
    return keys + [item for item in stripped if item.role is not Role.KEY]


def _index_of(items: list[ProjectionItem], column: KeyColumn, sink: str | None) -> int | None:
    for match in column.matches:
        indexes = [n for n, item in enumerate(items) if item.expression == match]
        if len(indexes) > 1 and sink is not None:
            aliases = " and ".join(f"`{items[n].name}`" for n in indexes)
            raise at(
                items[indexes[1]].expression,
                f"The projection contains a key column (`{column.name}`) more than once, aliased"
                f" as: {aliases}.",
                "Each key column must only be in the projection once. If you intended to copy the"
                " key into the value, then consider using the AS_VALUE function.",
            )
        if indexes:
            return indexes[0]
    return None


def _missing(missing: list[KeyColumn], what: str, sink: str) -> SqlError:
    first = missing[0]
    choices = [format_expression(match) for match in first.matches] or [first.name]
    if what == "join expression":
        text = f"{what}s {' or '.join(choices)}" if len(choices) > 1 else f"{what} {choices[0]}"
    else:
        names = [_short(column) for column in missing]
        text = f"{what}{'s' if len(names) > 1 else ''} {' and '.join(names)}"
    return SqlError(
        "Key missing from projection.\n"
        f"The query used to build `{sink}` must include the {text} in its projection (eg,"
        f" SELECT {choices[0] if what == 'join expression' else _short(first)}...).",
        remedy="Add it to the select list; AS_VALUE(...) copies a key column to the value.",
    )


def _short(column: KeyColumn) -> str:
    match = column.matches[0] if column.matches else None
    if match is None or isinstance(match, exp.Column):
        return column.name
    return format_expression(match)


def _value(expression: Expression) -> Expression:
    """Drop AS_VALUE, which only marks a copy of a key column as a value."""
    if isinstance(expression, exp.Anonymous) and expression.name.upper() == AS_VALUE:
        return expression.expressions[0].copy() if expression.expressions else expression
    return expression
