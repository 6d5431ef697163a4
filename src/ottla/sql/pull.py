"""Pull queries of the simple kind: answered in milliseconds from a table in memory.

The WHERE clause is read twice. Once for the way to the rows: keys to be looked up, keys to be
chosen by their columns alone, bounds of windows. And once as it is, over every row that was found
that way; so that a way that is too wide costs time and never a wrong row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, Final, Protocol

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.formats.scalars import epoch_ms_of
from ottla.rows.schema import (
    PSEUDO_COLUMNS,
    ROWPARTITION,
    WINDOW_BOUNDS,
    WINDOWEND,
    WINDOWSTART,
    Column,
    Layout,
)
from ottla.rows.types import TIMESTAMP, Kind, SqlType
from ottla.spark.table_store import ANY, BOUND_MAX, Bounds
from ottla.sql.evaluation import Evaluate, compiled
from ottla.sql.expressions import Scope, aggregate_calls, condition, constant, to_text, typed
from ottla.sql.expressions.operators import TIME_COLUMNS
from ottla.sql.plan.pull import check_columns, check_distinct, pulled_role
from ottla.sql.syntax.statements import Query, SelectItem
from ottla.sql.text import column as column_text

KEYS_MAX: Final = 100_000
"""More combinations of key columns than this are sooner found by looking at every row."""

Row = Mapping[str, Any]
Holds = Callable[[Row], bool]
Wanted = dict[str, list[Any]]
"""Values that key columns must have, one of each."""


class Rows(Protocol):
    """What a table has to give: `ottla.spark.tables.Table`."""

    def get(self, keys: Iterable[Sequence[Any]], bounds: Bounds = ...) -> list[dict[str, Any]]: ...

    def range(self, wanted: Any, bounds: Bounds = ...) -> list[dict[str, Any]]: ...

    def scan(self, bounds: Bounds = ...) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class SimplePull:
    """`keys`: those to look up; None: others have to be looked at, all those that `chosen` says.

    LIMIT gives the first ones, partition by partition in the order of keys, as ksqlDB does for keys
    that are ordered as their bytes are. `is_range_scan`: ksqlDB takes it for a range of
    keys, which is allowed even where scans of tables are not.
    """

    columns: tuple[Column, ...]
    items: Evaluate
    where: Holds | None = None
    limit: int | None = None
    keys: tuple[tuple[Any, ...], ...] | None = None
    key_names: tuple[str, ...] = ()
    chosen: Holds | None = None
    is_range_scan: bool = False
    bounds: Bounds = field(default=ANY)

    def rows(self, table: Rows) -> list[tuple[Any, ...]]:
        return list(islice(self._rows(table), self.limit))

    def _rows(self, table: Rows) -> Iterator[tuple[Any, ...]]:
        found = self._found(table)
        if self.limit is not None and self.keys is None:
            with suppress(TypeError):  # keys that have no order, as structs
                found.sort(key=lambda row: [row[name] for name in (ROWPARTITION, *self.key_names)])
        for row in found:
            if self.where is None or self.where(row):
                yield self.items(row)

    def _found(self, table: Rows) -> list[dict[str, Any]]:
        if self.keys is not None:
            return table.get(self.keys, self.bounds)
        chosen, names = self.chosen, self.key_names
        if chosen is None:
            return table.scan(self.bounds)
        return table.range(lambda key: chosen(dict(zip(names, key, strict=True))), self.bounds)


def simple_pull(query: Query, layout: Layout) -> SimplePull | None:
    """None: this is for Spark. SqlError: it is wrong, for whomever."""
    if not _is_plain(query) or not layout.is_table:
        return None
    assert query.source is not None
    check_columns(query)
    scope = _scope(layout, query.source.alias or query.source.name)
    items = list(_items(query.select, layout, scope))
    columns = tuple(
        Column(name, typed(node, scope), pulled_role(node, layout)) for name, node in items
    )
    check_distinct(columns)
    where = _holds(query.where, scope) if query.where is not None else None
    values = compiled([to_text(node, scope).python for _, node in items])
    return _with_way(SimplePull(columns, values, where, query.limit), query.where, layout, scope)


def _holds(node: exp.Expression, scope: Scope) -> Holds:
    compute = compiled([condition(node, scope).python])
    return lambda row: compute(row)[0] is True


def _is_plain(query: Query) -> bool:
    beyond = (query.beyond, query.joins, query.window, query.group_by, query.partition_by)
    if query.source is None or query.emit is not None or any((*beyond, query.having)):
        return False
    return not any(aggregate_calls(each.expression) for each in query.select if each.expression)


def _scope(layout: Layout, alias: str) -> Scope:
    hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if layout.windowed else {})}
    types = {**hidden, **{each.name: each.type for each in layout.schema.columns}}
    columns = {(alias, name): (type_, column_text(name)) for name, type_ in types.items()}
    return Scope(columns, spark=False)


# -- the select list


def _items(
    select: Sequence[SelectItem], layout: Layout, scope: Scope
) -> Iterator[tuple[str, exp.Expression]]:
    """Names and expressions, stars written out; what has no name is KSQL_COL_n."""
    taken = {each.alias for each in select if each.alias}
    free = (name for n in range(len(select) + len(taken)) if (name := f"KSQL_COL_{n}") not in taken)
    for each in select:
        if each.star_of is None:
            assert each.expression is not None
            yield each.alias or _own_name(each.expression) or next(free), each.expression
        elif isinstance(each.star_of, str):
            yield from _star(each.star_of, layout, scope)
        else:
            yield from _struct_star(each.star_of, scope)


def _own_name(node: exp.Expression) -> str:
    if isinstance(node, exp.Column):
        return str(node.name)
    return str(node.expression.name) if isinstance(node, exp.Dot) else ""


def _star(of: str, layout: Layout, scope: Scope) -> Iterator[tuple[str, exp.Expression]]:
    aliases = {alias for alias, _ in scope.columns}
    if of and of not in aliases:
        raise SqlError(
            f"'{of}' is not a valid stream/table name or alias.",
            remedy=f"Those of this query: {', '.join(aliases)}.",
        )
    names = [each.name for each in layout.schema.columns]
    if layout.windowed:
        keys = len(layout.schema.key)
        names[keys:keys] = WINDOW_BOUNDS
    for name in names:
        yield name, exp.Column(this=exp.Identifier(this=name, quoted=False))


def _struct_star(of: exp.Expression, scope: Scope) -> Iterator[tuple[str, exp.Expression]]:
    type_ = typed(of, scope)
    if type_.kind is not Kind.STRUCT:
        raise SqlError(
            f"Cannot expand ->*: it is {type_}, not a STRUCT.",
            remedy="Only the fields of a STRUCT can be written as ->*.",
        )
    for each in type_.fields:
        name = exp.Identifier(this=each.name, quoted=False)
        yield each.name, exp.Dot(this=of.copy(), expression=name)


# -- the way to the rows


def _with_way(
    pull: SimplePull, where: exp.Expression | None, layout: Layout, scope: Scope
) -> SimplePull:
    names = {each.name: each.type for each in layout.schema.key}
    pull = replace(pull, key_names=tuple(names))
    if where is None:
        return pull
    parts = list(conjuncts(where))
    bounds = _bounds(parts, scope) if layout.windowed else ANY
    keys = _keys(lookups(where, names, scope), tuple(names))
    if keys is not None:
        return replace(pull, keys=keys, bounds=bounds)
    own = [each for each in parts if _columns(each) and _columns(each) <= set(names)]
    chosen = None
    if own:
        whole = own[0]
        for each in own[1:]:
            whole = exp.And(this=whole.copy(), expression=each.copy())
        chosen = _holds(whole, scope)
    is_range_scan = _is_range_scan(parts, layout)
    return replace(pull, chosen=chosen, is_range_scan=is_range_scan, bounds=bounds)


def _is_range_scan(parts: Sequence[exp.Expression], layout: Layout) -> bool:
    """As in ksqlDB: one comparison of a key that is one STRING, in a table without windows."""
    key = layout.schema.key
    if layout.windowed or len(key) != 1 or key[0].type.kind is not Kind.STRING:
        return False
    own = [each for each in parts if key[0].name in _columns(each)]
    if len(own) != 1 or type(own[0]) not in RANGE_COMPARISONS:
        return False
    sides = (own[0].this, own[0].expression)
    return any(isinstance(each, exp.Column) for each in sides) and any(map(_is_constant, sides))


def conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def _columns(node: exp.Expression) -> set[str]:
    return {each.name for each in node.find_all(exp.Column)}


def lookups(node: exp.Expression, keys: Mapping[str, SqlType], scope: Scope) -> list[Wanted] | None:
    """What key columns must be for this to be true: one of the list. None: nothing is known."""
    if isinstance(node, exp.Paren):
        return lookups(node.this, keys, scope)
    if isinstance(node, exp.And):
        left = lookups(node.this, keys, scope)
        right = lookups(node.expression, keys, scope)
        if left is None or right is None:
            return right if left is None else left
        if len(left) * len(right) > KEYS_MAX:
            return left
        return [both for one, two in product(left, right) if (both := _both(one, two)) is not None]
    if isinstance(node, exp.Or):
        left = lookups(node.this, keys, scope)
        right = lookups(node.expression, keys, scope)
        return None if left is None or right is None else left + right
    return _lookup(node, keys, scope)


def _both(one: Wanted, two: Wanted) -> Wanted | None:
    merged = dict(one)
    for name, values in two.items():
        merged[name] = (
            [each for each in merged[name] if each in values] if name in merged else values
        )
        if not merged[name]:
            return None
    return merged


def _lookup(node: exp.Expression, keys: Mapping[str, SqlType], scope: Scope) -> list[Wanted] | None:
    column, values = _equality(node)
    if column is None or column.name not in keys or not all(map(_is_constant, values)):
        return None
    if any(isinstance(each, exp.Null) for each in values):
        raise SqlError(
            f"Primary key columns can not be NULL: ({column.name} = null)",
            remedy="Leave NULL out: no row has it for a key.",
        )
    try:
        return [{column.name: [_constant_beside(each, column, scope) for each in values]}]
    except SqlError:
        _check_key_texts(values, column.name, keys[column.name])
        return None


def _check_key_texts(values: Iterable[exp.Expression], name: str, type_: SqlType) -> None:
    """IN reads text as a number, but not for a key: what is looked up has the type of the key."""
    for each in values:
        if isinstance(each, exp.Literal) and each.is_string and type_.kind is not Kind.STRING:
            raise SqlError(
                f"'{each.name}' can not be converted to the type of the key column:"
                f" {name} {type_} KEY",
                remedy=f"Write it as {type_} is written, without quotes if that is a number.",
            )


def _is_constant(node: exp.Expression) -> bool:
    return not any(isinstance(each, exp.Column | exp.Anonymous) for each in node.walk())


def _constant_beside(node: exp.Expression, other: exp.Column, scope: Scope) -> Any:
    """The value of a constant, as what it is compared with: text beside a date is a date."""
    is_text = isinstance(node, exp.Literal) and bool(node.is_string)
    if other.name in TIME_COLUMNS and is_text:
        return epoch_ms_of(constant(node, TIMESTAMP))
    return constant(node, typed(other, scope))


def _equality(node: exp.Expression) -> tuple[exp.Column | None, list[exp.Expression]]:
    if isinstance(node, exp.In) and isinstance(node.this, exp.Column):
        return node.this, list(node.expressions)
    if isinstance(node, exp.EQ):
        for column, other in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(column, exp.Column):
                return column, [other]
    return None, []


def _keys(
    wanted: list[Wanted] | None, names: tuple[str, ...]
) -> tuple[tuple[Any, ...], ...] | None:
    if wanted is None or not all(set(each) == set(names) for each in wanted):
        return None
    found: list[tuple[Any, ...]] = []
    for each in wanted:
        found += islice(product(*(each[name] for name in names)), KEYS_MAX + 1)
        if len(found) > KEYS_MAX:
            return None
    return tuple(found)


def _bounds(parts: Iterable[exp.Expression], scope: Scope) -> Bounds:
    """Of WINDOWSTART and WINDOWEND, where they are compared with constants."""
    low = {WINDOWSTART: 0, WINDOWEND: 0}
    high = {WINDOWSTART: BOUND_MAX, WINDOWEND: BOUND_MAX}
    for name, kind, value in _window_comparisons(parts, scope):
        if kind in (exp.EQ, exp.GTE, exp.GT):
            low[name] = max(low[name], value + (kind is exp.GT))
        if kind in (exp.EQ, exp.LTE, exp.LT):
            high[name] = min(high[name], value - (kind is exp.LT))
    return Bounds(low[WINDOWSTART], high[WINDOWSTART], low[WINDOWEND], high[WINDOWEND])


def _window_comparisons(
    parts: Iterable[exp.Expression], scope: Scope
) -> Iterator[tuple[str, type[exp.Expression], int]]:
    for each in parts:
        sides: list[tuple[exp.Expression, type[exp.Expression], exp.Expression]] = []
        if isinstance(each, exp.Between):
            sides = [
                (each.this, exp.GTE, each.args["low"]),
                (each.this, exp.LTE, each.args["high"]),
            ]
        elif type(each) in MIRRORED:
            sides = [
                (each.this, type(each), each.expression),
                (each.expression, MIRRORED[type(each)], each.this),
            ]
        for column, kind, value in sides:
            if not isinstance(column, exp.Column) or column.name not in WINDOW_BOUNDS:
                continue
            if _is_constant(value):
                with suppress(SqlError):
                    yield column.name, kind, int(_constant_beside(value, column, scope))


RANGE_COMPARISONS: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
MIRRORED: Final[dict[type[exp.Expression], type[exp.Expression]]] = {
    exp.EQ: exp.EQ,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
}
