"""Pull queries that are answered in milliseconds from a table in memory.

The WHERE clause is used twice: to find candidate rows (keys to look up, conditions on key columns,
window bounds), and then as a filter on these rows. So the first step may find too many rows, which
costs time, but never gives a wrong result.
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
from ottla.rows.types import TIMESTAMP, SqlBaseType, SqlType
from ottla.spark.table_store import ANY, BOUND_MAX, Bounds
from ottla.sql.evaluation import Evaluation, compiled
from ottla.sql.expressions import Scope, condition, constant, to_text, typed
from ottla.sql.expressions.operators import TIME_COLUMNS
from ottla.sql.plan.calls import is_aggregate
from ottla.sql.plan.spark_pull import check_columns, check_distinct, pulled_role
from ottla.sql.syntax.statements import QueryBody, SelectItem
from ottla.sql.text import column as column_text

KEYS_MAX: Final = 100_000
"""With more combinations of key values than this, a scan of the table is faster."""

Row = Mapping[str, Any]
Holds = Callable[[Row], bool]
Wanted = dict[str, list[Any]]
"""The required value of each key column."""


class QueryableTable(Protocol):
    """A table in memory: `ottla.spark.tables.MaterializedTable`."""

    def get(self, keys: Iterable[Sequence[Any]], bounds: Bounds = ...) -> list[dict[str, Any]]: ...

    def range(self, wanted: Any, bounds: Bounds = ...) -> list[dict[str, Any]]: ...

    def scan(self, bounds: Bounds = ...) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class TablePull:
    """A pull query on one table. `keys` are to be looked up; None means a scan, with filter
    `chosen`.

    With LIMIT the first rows are those of the first partitions in key order, as in ksqlDB for keys
    that sort like their bytes. `is_range_scan`: ksqlDB would do a range scan, which it allows even
    if table scans are disabled.
    """

    columns: tuple[Column, ...]
    items: Evaluation
    where: Holds | None = None
    limit: int | None = None
    keys: tuple[tuple[Any, ...], ...] | None = None
    key_names: tuple[str, ...] = ()
    chosen: Holds | None = None
    is_range_scan: bool = False
    bounds: Bounds = field(default=ANY)

    def rows(self, table: QueryableTable) -> list[tuple[Any, ...]]:
        return list(islice(self._rows(table), self.limit))

    def _rows(self, table: QueryableTable) -> Iterator[tuple[Any, ...]]:
        found = self._found(table)
        if self.limit is not None and self.keys is None:
            with suppress(TypeError):  # keys without an order, such as structs
                found.sort(key=lambda row: [row[name] for name in (ROWPARTITION, *self.key_names)])
        for row in found:
            if self.where is None or self.where(row):
                yield self.items(row)

    def _found(self, table: QueryableTable) -> list[dict[str, Any]]:
        if self.keys is not None:
            return table.get(self.keys, self.bounds)
        chosen, names = self.chosen, self.key_names
        if chosen is None:
            return table.scan(self.bounds)
        return table.range(lambda key: chosen(dict(zip(names, key, strict=True))), self.bounds)


def table_pull(query: QueryBody, layout: Layout) -> TablePull | None:
    """The pull query; None if it needs Spark, SqlError if it is invalid."""
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
    return _with_way(TablePull(columns, values, where, query.limit), query.where, layout, scope)


def _holds(node: exp.Expression, scope: Scope) -> Holds:
    compute = compiled([condition(node, scope).python])
    return lambda row: compute(row)[0] is True


def _is_plain(query: QueryBody) -> bool:
    beyond = (query.beyond, query.joins, query.window, query.group_by, query.partition_by)
    if query.source is None or query.emit is not None or any((*beyond, query.having)):
        return False
    return not any(
        is_aggregate(call.name)
        for item in query.select
        if item.expression
        for call in item.expression.find_all(exp.Anonymous)
    )


def _scope(layout: Layout, alias: str) -> Scope:
    hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if layout.windowed else {})}
    types = {**hidden, **{column.name: column.type for column in layout.schema.columns}}
    columns = {(alias, name): (type_, column_text(name)) for name, type_ in types.items()}
    return Scope(columns, spark=False)


# -- the select list


def _items(
    select: Sequence[SelectItem], layout: Layout, scope: Scope
) -> Iterator[tuple[str, exp.Expression]]:
    """Names and expressions with stars expanded; unnamed ones are KSQL_COL_n."""
    taken = {item.alias for item in select if item.alias}
    free = (name for n in range(len(select) + len(taken)) if (name := f"KSQL_COL_{n}") not in taken)
    for item in select:
        if item.star_of is None:
            assert item.expression is not None
            yield item.alias or _own_name(item.expression) or next(free), item.expression
        elif isinstance(item.star_of, str):
            yield from _star(item.star_of, layout, scope)
        else:
            yield from _struct_star(item.star_of, scope)


def _own_name(node: exp.Expression) -> str:
    if isinstance(node, exp.Column):
        return str(node.name)
    return str(node.expression.name) if isinstance(node, exp.Dot) else ""


def _star(of: str, layout: Layout, scope: Scope) -> Iterator[tuple[str, exp.Expression]]:
    aliases = {alias for alias, _ in scope.columns}
    if of and of not in aliases:
        raise SqlError(
            f"'{of}' is not a valid stream/table name or alias.",
            remedy=f"Names in this query: {', '.join(aliases)}.",
        )
    names = [column.name for column in layout.schema.columns]
    if layout.windowed:
        keys = len(layout.schema.key)
        names[keys:keys] = WINDOW_BOUNDS
    for name in names:
        yield name, exp.Column(this=exp.Identifier(this=name, quoted=False))


def _struct_star(of: exp.Expression, scope: Scope) -> Iterator[tuple[str, exp.Expression]]:
    type_ = typed(of, scope)
    if type_.kind is not SqlBaseType.STRUCT:
        raise SqlError(
            f"Cannot expand ->*: it is {type_}, not a STRUCT.",
            remedy="Only the fields of a STRUCT can be written as ->*.",
        )
    for inner in type_.fields:
        name = exp.Identifier(this=inner.name, quoted=False)
        yield inner.name, exp.Dot(this=of.copy(), expression=name)


# -- finding rows


def _with_way(
    pull: TablePull, where: exp.Expression | None, layout: Layout, scope: Scope
) -> TablePull:
    names = {column.name: column.type for column in layout.schema.key}
    pull = replace(pull, key_names=tuple(names))
    if where is None:
        return pull
    parts = list(conjuncts(where))
    bounds = _bounds(parts, scope) if layout.windowed else ANY
    keys = _keys(lookups(where, names, scope), tuple(names))
    if keys is not None:
        return replace(pull, keys=keys, bounds=bounds)
    own = [part for part in parts if _columns(part) and _columns(part) <= set(names)]
    chosen = None
    if own:
        whole = own[0]
        for part in own[1:]:
            whole = exp.And(this=whole.copy(), expression=part.copy())
        chosen = _holds(whole, scope)
    is_range_scan = _is_range_scan(parts, layout)
    return replace(pull, chosen=chosen, is_range_scan=is_range_scan, bounds=bounds)


def _is_range_scan(parts: Sequence[exp.Expression], layout: Layout) -> bool:
    """As in ksqlDB: one comparison with a key of one STRING column, in a table without windows."""
    key = layout.schema.key
    if layout.windowed or len(key) != 1 or key[0].type.kind is not SqlBaseType.STRING:
        return False
    own = [part for part in parts if key[0].name in _columns(part)]
    if len(own) != 1 or type(own[0]) not in RANGE_COMPARISONS:
        return False
    sides = (own[0].this, own[0].expression)
    return any(isinstance(side, exp.Column) for side in sides) and any(map(_is_constant, sides))


def conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    if isinstance(node, exp.Paren):
        yield from conjuncts(node.this)
    elif isinstance(node, exp.And):
        yield from conjuncts(node.this)
        yield from conjuncts(node.expression)
    else:
        yield node


def _columns(node: exp.Expression) -> set[str]:
    return {reference.name for reference in node.find_all(exp.Column)}


def lookups(node: exp.Expression, keys: Mapping[str, SqlType], scope: Scope) -> list[Wanted] | None:
    """The key values of which one is required for the condition to be true; None: unknown."""
    if isinstance(node, exp.Paren):
        return lookups(node.this, keys, scope)
    if isinstance(node, exp.And):
        left = lookups(node.this, keys, scope)
        right = lookups(node.expression, keys, scope)
        if left is None or right is None:
            return right if left is None else left
        if len(left) * len(right) > KEYS_MAX:
            return left
        return [
            both for first, two in product(left, right) if (both := _both(first, two)) is not None
        ]
    if isinstance(node, exp.Or):
        left = lookups(node.this, keys, scope)
        right = lookups(node.expression, keys, scope)
        return None if left is None or right is None else left + right
    return _lookup(node, keys, scope)


def _both(one: Wanted, two: Wanted) -> Wanted | None:
    merged = dict(one)
    for name, values in two.items():
        merged[name] = (
            [value for value in merged[name] if value in values] if name in merged else values
        )
        if not merged[name]:
            return None
    return merged


def _lookup(node: exp.Expression, keys: Mapping[str, SqlType], scope: Scope) -> list[Wanted] | None:
    column, values = _equality(node)
    if column is None or column.name not in keys or not all(map(_is_constant, values)):
        return None
    if any(isinstance(value, exp.Null) for value in values):
        raise SqlError(
            f"Primary key columns can not be NULL: ({column.name} = null)",
            remedy="Leave out NULL: no row has a NULL key.",
        )
    try:
        return [{column.name: [_constant_beside(value, column, scope) for value in values]}]
    except SqlError:
        _check_key_texts(values, column.name, keys[column.name])
        return None


def _check_key_texts(values: Iterable[exp.Expression], name: str, type_: SqlType) -> None:
    """IN converts text to a number, but not for a key: a lookup needs the type of the key."""
    for value in values:
        if (
            isinstance(value, exp.Literal)
            and value.is_string
            and type_.kind is not SqlBaseType.STRING
        ):
            raise SqlError(
                f"'{value.name}' can not be converted to the type of the key column:"
                f" {name} {type_} KEY",
                remedy=f"Write a literal of type {type_}; numbers have no quotes.",
            )


def _is_constant(node: exp.Expression) -> bool:
    return not any(isinstance(child, exp.Column | exp.Anonymous) for child in node.walk())


def _constant_beside(node: exp.Expression, other: exp.Column, scope: Scope) -> Any:
    """The value of a constant, converted to the type of the other side: text to a date."""
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
    if wanted is None or not all(set(lookup) == set(names) for lookup in wanted):
        return None
    found: list[tuple[Any, ...]] = []
    for lookup in wanted:
        found += islice(product(*(lookup[name] for name in names)), KEYS_MAX + 1)
        if len(found) > KEYS_MAX:
            return None
    return tuple(found)


def _bounds(parts: Iterable[exp.Expression], scope: Scope) -> Bounds:
    """The bounds that comparisons with constants give to WINDOWSTART and WINDOWEND."""
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
    for part in parts:
        sides: list[tuple[exp.Expression, type[exp.Expression], exp.Expression]] = []
        if isinstance(part, exp.Between):
            sides = [
                (part.this, exp.GTE, part.args["low"]),
                (part.this, exp.LTE, part.args["high"]),
            ]
        elif type(part) in MIRRORED:
            sides = [
                (part.this, type(part), part.expression),
                (part.expression, MIRRORED[type(part)], part.this),
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
