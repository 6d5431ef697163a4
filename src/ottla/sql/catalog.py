"""The catalog: streams, tables, custom types and persistent queries. ksqlDB calls it MetaStore.

A Catalog is an immutable snapshot. A statement is planned against one snapshot and gives the next,
so that readers on other threads never see half of a change. The rules for replacing, altering and
dropping sources are here, with ksqlDB's error messages.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeVar

from ottla.rows.errors import SqlError
from ottla.rows.schema import Column, Layout, LogicalSchema, Role
from ottla.rows.types import SqlType
from ottla.sql.syntax.statements import Element, SourceKind

SUGGESTIONS_MAX: Final = 3

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DataSource:
    """A stream or a table over a topic.

    `query_id` is the query of CREATE ... AS SELECT, which writes this source and ends with it.
    `reads` are the sources of that query, which can't be dropped before this one. `partitions` is
    the topic's partition count when the source was defined; 0: unknown.
    """

    name: str
    kind: SourceKind
    layout: Layout
    topic: str
    sql_text: str = ""
    read_only: bool = False
    query_id: str = ""
    reads: tuple[str, ...] = ()
    partitions: int = 0

    @property
    def schema(self) -> LogicalSchema:
        return self.layout.schema

    @property
    def is_table(self) -> bool:
        return self.kind is SourceKind.TABLE

    @property
    def is_windowed(self) -> bool:
        return self.layout.windowed is not None


class QueryKind(StrEnum):
    CREATE_AS = "CREATE_AS"
    INSERT = "INSERT"


@dataclass(frozen=True, slots=True)
class PersistentQuery:
    """A query that runs until it is terminated, with its sources and its sink.

    `properties` are those of its command: a restarted server runs the query with the same ones.
    """

    id: str
    text: str
    kind: QueryKind
    reads: tuple[str, ...]
    sink: str
    properties: Mapping[str, str] = field(default_factory=dict)
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Catalog:
    """One snapshot. Methods that change something return the next snapshot."""

    sources: Mapping[str, DataSource] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)
    queries: Mapping[str, PersistentQuery] = field(default_factory=dict)

    # Lookup

    def find(self, name: str, *, line: int = 0, column: int = 0) -> DataSource:
        """The source of this name; SqlError if there is none."""
        found = self.sources.get(name)
        if found is None:
            raise SqlError(
                f"{name} does not exist.",
                remedy=did_you_mean(name, self.sources, "stream or table"),
                line=line,
                column=column,
            )
        return found

    def of_kind(self, kind: SourceKind) -> list[DataSource]:
        return [source for _, source in sorted(self.sources.items()) if source.kind is kind]

    def query(self, query_id: str) -> PersistentQuery:
        """The query with this id, regardless of case."""
        found = self.queries.get(query_id) or self.queries.get(query_id.upper())
        if found is None:
            raise SqlError(
                f"Unknown queryId: {query_id}",
                remedy=did_you_mean(query_id, self.queries, "query", "SHOW QUERIES;"),
            )
        return found

    def readers(self, name: str) -> list[str]:
        """Ids of the queries that read from this source."""
        return sorted(query.id for query in self.queries.values() if name in query.reads)

    def writers(self, name: str) -> list[str]:
        """Ids of the queries that write into this source."""
        return sorted(query.id for query in self.queries.values() if query.sink == name)

    def built_on(self, name: str) -> list[str]:
        """The sources whose CREATE ... AS SELECT reads from this one."""
        return sorted(source.name for source in self.sources.values() if name in source.reads)

    # Changes

    def with_source(self, source: DataSource) -> Catalog:
        return replace(self, sources={**self.sources, source.name: source})

    def without_source(self, name: str) -> Catalog:
        return replace(self, sources=_without(self.sources, name))

    def with_type(self, name: str, type_: SqlType) -> Catalog:
        return replace(self, types={**self.types, name: type_})

    def without_type(self, name: str) -> Catalog:
        return replace(self, types=_without(self.types, name))

    def with_query(self, query: PersistentQuery) -> Catalog:
        return replace(self, queries={**self.queries, query.id: query})

    def without_query(self, query_id: str) -> Catalog:
        return replace(self, queries=_without(self.queries, query_id))


# -- rules of CREATE OR REPLACE, ALTER and DROP


def check_new(catalog: Catalog, name: str, kind: SourceKind) -> None:
    """CREATE without OR REPLACE needs a name that is free."""
    existing = catalog.sources.get(name)
    if existing is None:
        return
    there = existing.kind.lower()
    raise SqlError(
        f"Cannot add {kind.lower()} '{name}': A {there} with the same name already exists",
        remedy=f"Drop it first (DROP {existing.kind} {name};), or choose another name"
        " or CREATE OR REPLACE or IF NOT EXISTS.",
    )


def check_replace(catalog: Catalog, new: DataSource) -> None:
    """CREATE OR REPLACE may add value columns at the end, but change no existing one."""
    old = catalog.sources.get(new.name)
    if old is None:
        return
    if old.read_only or new.read_only:
        raise not_replaceable(new.name, old.kind)
    if old.kind is not new.kind:
        raise SqlError(
            f"Cannot add {new.kind.lower()} '{new.name}': A {old.kind.lower()} with the same name"
            " already exists",
            remedy=f"A {old.kind.lower()} can't become a {new.kind.lower()}:"
            f" DROP {old.kind} {new.name}; first, or choose another name.",
        )
    troubles = list(_not_upgradeable(old, new))
    if troubles:
        raise SqlError(
            "Cannot upgrade data source: " + "\n\tAND ".join(troubles),
            remedy="OR REPLACE can add columns at the end of the value. For any other change drop"
            " it first, or choose another name.",
        )


def not_replaceable(name: str, kind: SourceKind) -> SqlError:
    """CREATE SOURCE can't be replaced: as in ksqlDB its schema is that of the topic."""
    return SqlError(
        f"Cannot add {kind.lower()} '{name}': CREATE OR REPLACE is not supported on source"
        f" {kind.lower()}s.",
        remedy=f"Leave out OR REPLACE, and DROP {kind} {name}; first if it exists.",
    )


def _not_upgradeable(old: DataSource, new: DataSource) -> Iterable[str]:
    for what, before, after in (
        ("topic", old.topic, new.topic),
        ("key format", old.layout.key_format.name, new.layout.key_format.name),
        ("value format", old.layout.value_format.name, new.layout.value_format.name),
        ("timestamp column", old.layout.timestamp, new.layout.timestamp),
        ("windowing", _window_text(old), _window_text(new)),
    ):
        if before != after:
            yield (
                f"DataSource '`{old.name}`' has {what} = {before} which is not upgradeable to"
                f" {after}"
            )
    trouble = _schema_trouble(old.schema, new.schema)
    if trouble:
        yield (
            f"DataSource '`{old.name}`' has schema = {schema_text(old.schema)} which is not"
            f" upgradeable to {schema_text(new.schema)}. ({trouble})"
        )


def _window_text(source: DataSource) -> str:
    windowed = source.layout.windowed
    return f"{windowed.kind} {windowed.size_ms}" if windowed else "none"


def _schema_trouble(old: LogicalSchema, new: LogicalSchema) -> str:
    if old.key != new.key:
        return "Key columns must be identical."
    kept = new.columns
    changed = [
        column_text(column)
        for index, column in enumerate(old.columns)
        if index >= len(kept) or kept[index] != column
    ]
    if changed:
        return f"The following columns are changed, missing or reordered: [{', '.join(changed)}]"
    return ""


def check_drop(catalog: Catalog, name: str) -> None:
    """A source can't be dropped while other sources or INSERT INTO queries use it.

    The query of the source's CREATE ... AS SELECT does not count: it ends with the source.
    """
    source = catalog.sources[name]
    above = catalog.built_on(name)
    if above:
        raise SqlError(
            f"Cannot drop {name}.\n"
            f"The following streams and/or tables read from this source: [{', '.join(above)}].\n"
            f"You need to drop them before dropping {name}.",
            remedy=" ".join(f"DROP {catalog.sources[reader].kind} {reader};" for reader in above),
        )
    readers = catalog.readers(name)
    writers = [query_id for query_id in catalog.writers(name) if query_id != source.query_id]
    if readers or writers:
        raise SqlError(
            f"Cannot drop {name}.\n"
            f"The following queries read from this source: [{', '.join(readers)}].\n"
            f"The following queries write into this source: [{', '.join(writers)}].\n"
            f"You need to terminate them before dropping {name}.",
            remedy=" ".join(
                f"TERMINATE {query_id};" for query_id in dict.fromkeys(readers + writers)
            ),
        )


def altered(
    catalog: Catalog, name: str, kind: SourceKind, columns: Iterable[Element]
) -> DataSource:
    """The source with these columns appended; SqlError if that is not allowed."""
    source = catalog.sources.get(name)
    if source is None:
        raise SqlError(
            f"Source {name} does not exist.",
            remedy=did_you_mean(name, catalog.sources, "stream or table"),
        )
    if source.kind is not kind:
        raise SqlError(
            f"Incompatible data source type is {source.kind}, but statement was ALTER {kind}",
            remedy=f"Write ALTER {source.kind} {name}.",
        )
    if source.query_id or source.reads:
        raise SqlError(
            "ALTER command is not supported for CREATE ... AS statements.",
            remedy=f"Use CREATE OR REPLACE {kind} {name} AS SELECT ... with the new column last.",
        )
    if source.read_only:
        raise SqlError(
            f"Cannot alter {kind.lower()} '{name}': ALTER operations are not supported on source"
            f" {kind.lower()}s.",
            remedy=f"Drop it and create it again: DROP {kind} {name};",
        )
    added = list(source.schema.columns)
    for column in columns:
        if any(column.name == there.name for there in added):
            raise SqlError(
                f"Cannot add column `{column.name}` to schema. A column with the same name already"
                " exists.",
                remedy=f"DESCRIBE {name}; shows the existing columns.",
            )
        added.append(Column(column.name, column.type, Role.VALUE))
    return replace(source, layout=replace(source.layout, schema=LogicalSchema(tuple(added))))


# -- text


def schema_text(schema: LogicalSchema) -> str:
    """As ksqlDB writes a schema: "`ID` STRING KEY, `NAME` STRING"."""
    return ", ".join(column_text(column) for column in schema.columns)


def column_text(column: Column) -> str:
    if column.role is Role.HEADER:
        return f"`{column.name}` {column.type} HEADER('{column.header}')"
    suffix = "" if column.role is Role.VALUE else f" {column.role}"
    return f"`{column.name}` {column.type}{suffix}"


def did_you_mean(name: str, there: Iterable[str], what: str, show: str = "") -> str:
    """A remedy: similar names, or the statement that lists all names."""
    close = close_names(name, there)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    if show:
        return f"{show} lists every {what}."
    return "SHOW STREAMS; and SHOW TABLES; list all streams and tables."


def close_names(name: str, there: Iterable[str]) -> list[str]:
    folded = {name.upper(): name for name in there}
    close = difflib.get_close_matches(name.upper(), folded, SUGGESTIONS_MAX)
    return [folded[name] for name in close]


def _without(mapping: Mapping[str, _T], name: str) -> dict[str, _T]:
    return {key: value for key, value in mapping.items() if key != name}
