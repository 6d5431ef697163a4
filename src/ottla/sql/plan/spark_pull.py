"""Pull queries that Spark answers, over the current rows of streams and tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from sqlglot import exp

from ottla.rows.errors import SqlError
from ottla.rows.schema import (
    ROWOFFSET,
    ROWPARTITION,
    WINDOW_BOUNDS,
    WINDOWEND,
    WINDOWSTART,
    Column,
    Layout,
    Role,
)
from ottla.rows.types import spark_name
from ottla.sql.catalog import Catalog, DataSource
from ottla.sql.expressions import to_spark, typed
from ottla.sql.plan.names import at, names_of, plain_text, scope_of
from ottla.sql.plan.planner import condition_text
from ottla.sql.plan.projection import expand
from ottla.sql.syntax.statements import Expression, QueryBody

OF_RECORDS: Final = frozenset({ROWPARTITION, ROWOFFSET})
"""Pseudo columns of records, which rows of a pull query don't have."""


@dataclass(frozen=True, slots=True)
class SparkPull:
    """A pull query as Spark SQL. `views` has the source of each view in `text`.

    `columns` is empty if only Spark knows the columns of the result.
    """

    text: str
    views: dict[str, DataSource]
    columns: tuple[Column, ...] = ()
    limit: int | None = None


def plan_spark_pull(query: QueryBody, catalog: Catalog) -> SparkPull:
    """Plan any query without EMIT, in ksqlDB's grammar or beyond it."""
    if query.beyond is not None:
        return _beyond(query.beyond, catalog)
    return _plain(query, catalog)


def _plain(query: QueryBody, catalog: Catalog) -> SparkPull:
    clauses = {
        "JOIN": query.joins,
        "WINDOW": query.window,
        "GROUP BY": query.group_by,
        "PARTITION BY": query.partition_by,
        "HAVING": query.having,
    }
    for clause, written in clauses.items():
        if written:
            raise SqlError(
                f"Pull queries don't support {clause} clauses.",
                remedy="Add EMIT CHANGES for a push query, or use a subquery: SELECT ... FROM"
                " (SELECT ...).",
            )
    check_columns(query)
    names = names_of(query, catalog)
    items = expand(query, names, transient=True)
    scope = replace(scope_of(names, plain_text), aggregates=True)
    source = names.relations[0].source
    texts = []
    columns = []
    for item in items:
        kind = typed(item.expression, scope)
        text = to_spark(item.expression, scope)
        texts.append(f"CAST({text} AS {kind.spark}) AS {spark_name(item.name)}")
        columns.append(Column(item.name, kind, pulled_role(item.expression, source.layout)))
    check_distinct(columns)
    view = _view(source.name)
    where = condition_text(query.where, "WHERE", names, plain_text)
    text = f"SELECT {', '.join(texts)} FROM {spark_name(view)}"
    text += f" WHERE {where.spark}" if where else ""
    text += f" LIMIT {query.limit}" if query.limit is not None else ""
    return SparkPull(text, {view: source}, tuple(columns), query.limit)


def check_columns(query: QueryBody) -> None:
    """As in ksqlDB only push and persistent queries have ROWPARTITION and ROWOFFSET."""
    select = (item.expression for item in query.select if item.expression is not None)
    where = () if query.where is None else (query.where,)
    for clause, parts in (("SELECT", select), ("WHERE", where)):
        _check_clause(clause, parts)


def _check_clause(clause: str, parts: Iterable[Expression]) -> None:
    found = [
        reference
        for part in parts
        for reference in part.find_all(exp.Column)
        if reference.name in OF_RECORDS
    ]
    if found:
        names = ", ".join(
            f"`{name}`" for name in dict.fromkeys(reference.name for reference in found)
        )
        raise at(
            found[0],
            f"Pull queries don't support the following columns in {clause} clauses: {names}",
            "Add EMIT CHANGES: push queries have these columns.",
        )


def check_distinct(columns: Iterable[Column]) -> None:
    """Names must be distinct, because clients find values by name."""
    seen: set[str] = set()
    for column in columns:
        if column.name in seen:
            kind, ending = ("key", " KEY") if column.role is Role.KEY else ("value", "")
            raise SqlError(
                f"Duplicate {kind} columns found in schema: `{column.name}` {column.type}{ending}",
                remedy="Add an alias to one of them: ... AS NAME.",
            )
        seen.add(column.name)


def pulled_role(expression: exp.Expression, layout: Layout) -> Role:
    """KEY for an unchanged key column of the table or a bound of its window."""
    if not layout.is_table or not isinstance(expression, exp.Column):
        return Role.VALUE
    keys = {column.name for column in layout.schema.key}
    keys |= set(WINDOW_BOUNDS) if layout.windowed else set()
    return Role.KEY if expression.name in keys else Role.VALUE


def _beyond(tree: exp.Expression, catalog: Catalog) -> SparkPull:
    """Replace the names of sources by those of views; Spark checks the rest."""
    copy = tree.copy()
    own = {cte.alias for cte in copy.find_all(exp.CTE)}
    views: dict[str, DataSource] = {}
    for table in copy.find_all(exp.Table):
        if table.name in own or not table.name:
            continue
        source = catalog.find(table.name)
        view = _view(source.name)
        views[view] = source
        alias = table.alias or source.name
        table.set("this", exp.Identifier(this=view, quoted=True))
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.Identifier(this=alias, quoted=True)))
    return SparkPull(copy.sql(dialect="spark"), views)


def _view(name: str) -> str:
    return f"ottla_pull_{name}"


def bounds_of(source: DataSource) -> tuple[str, ...]:
    return (WINDOWSTART, WINDOWEND) if source.is_windowed else ()
