"""Pull queries that Spark answers: a question asked once, over rows as they are now."""

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
from ottla.sql.catalog import Catalog, Source
from ottla.sql.expressions import to_spark, typed
from ottla.sql.plan.names import at, names_of, plain_text, scope_of
from ottla.sql.plan.planner import condition_text
from ottla.sql.plan.projection import expand
from ottla.sql.syntax.statements import Expression, Query

OF_RECORDS: Final = frozenset({ROWPARTITION, ROWOFFSET})
"""Columns that say where a record lies: rows of a pull query are no records."""


@dataclass(frozen=True, slots=True)
class Pull:
    """`text` is Spark SQL in which each source goes by the name that `views` gives it.

    `columns` is empty where only Spark knows what comes out.
    """

    text: str
    views: dict[str, Source]
    columns: tuple[Column, ...] = ()
    limit: int | None = None


def plan_pull(query: Query, catalog: Catalog) -> Pull:
    """Any query without EMIT: within ksqlDB's grammar, or beyond it."""
    if query.beyond is not None:
        return _beyond(query.beyond, catalog)
    return _plain(query, catalog)


def _plain(query: Query, catalog: Catalog) -> Pull:
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
                remedy="Add EMIT CHANGES to follow the query, or ask as Spark SQL does: SELECT ..."
                " FROM (SELECT ...).",
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
    return Pull(text, {view: source}, tuple(columns), query.limit)


def check_columns(query: Query) -> None:
    """As ksqlDB: ROWPARTITION and ROWOFFSET are for push and persistent queries."""
    select = (each.expression for each in query.select if each.expression is not None)
    where = () if query.where is None else (query.where,)
    for clause, parts in (("SELECT", select), ("WHERE", where)):
        _check_clause(clause, parts)


def _check_clause(clause: str, parts: Iterable[Expression]) -> None:
    found = [
        each for part in parts for each in part.find_all(exp.Column) if each.name in OF_RECORDS
    ]
    if found:
        names = ", ".join(f"`{name}`" for name in dict.fromkeys(each.name for each in found))
        raise at(
            found[0],
            f"Pull queries don't support the following columns in {clause} clauses: {names}",
            "Add EMIT CHANGES to follow the query: then they are known.",
        )


def check_distinct(columns: Iterable[Column]) -> None:
    """Each name once: clients find the values of a row by them."""
    seen: set[str] = set()
    for each in columns:
        if each.name in seen:
            kind, ending = ("key", " KEY") if each.role is Role.KEY else ("value", "")
            raise SqlError(
                f"Duplicate {kind} columns found in schema: `{each.name}` {each.type}{ending}",
                remedy="Give one of them another name: ... AS NAME.",
            )
        seen.add(each.name)


def pulled_role(expression: exp.Expression, layout: Layout) -> Role:
    """KEY: it is a column of the table's key, or a bound of its window, as it is."""
    if not layout.is_table or not isinstance(expression, exp.Column):
        return Role.VALUE
    keys = {each.name for each in layout.schema.key}
    keys |= set(WINDOW_BOUNDS) if layout.windowed else set()
    return Role.KEY if expression.name in keys else Role.VALUE


def _beyond(tree: exp.Expression, catalog: Catalog) -> Pull:
    """Names of sources become those of views; the rest is Spark's to check."""
    copy = tree.copy()
    own = {each.alias for each in copy.find_all(exp.CTE)}
    views: dict[str, Source] = {}
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
    return Pull(copy.sql(dialect="spark"), views)


def _view(name: str) -> str:
    return f"ottla_pull_{name}"


def bounds_of(source: Source) -> tuple[str, ...]:
    return (WINDOWSTART, WINDOWEND) if source.is_windowed else ()
