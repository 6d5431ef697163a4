"""What there is: streams, tables, types and persistent queries.

A Catalog is one immutable snapshot: a statement is checked and planned against a snapshot and gives
the next one, so that readers on other threads never see half of a change. The rules of what may be
replaced, altered and dropped are here, in ksqlDB's words.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final, TypeVar

from ottla.rows.errors import SqlError
from ottla.rows.schema import Column, Layout, Role, Schema
from ottla.rows.types import SqlType
from ottla.sql.syntax.statements import Element, SourceKind

SUGGESTIONS_MAX: Final = 3

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Source:
    """A stream or a table over a topic.

    `query_id` is of the query that fills it, where it was made by CREATE ... AS SELECT: such a
    query ends with it. `reads` are the sources of that query, which can't be dropped before it.
    `partitions` is the topic's count when the source was defined; 0: not known.
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
    def schema(self) -> Schema:
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
    """A query that runs until it is terminated: what it was made of, and what it joins together.

    `properties` are those it was written with: a restarted server runs it with the same ones.
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
    """One snapshot. The methods that change something give the next snapshot."""

    sources: Mapping[str, Source] = field(default_factory=dict)
    types: Mapping[str, SqlType] = field(default_factory=dict)
    queries: Mapping[str, PersistentQuery] = field(default_factory=dict)

    # Looked up

    def find(self, name: str, *, line: int = 0, column: int = 0) -> Source:
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

    def of_kind(self, kind: SourceKind) -> list[Source]:
        return [each for _, each in sorted(self.sources.items()) if each.kind is kind]

    def query(self, query_id: str) -> PersistentQuery:
        """The query of this id, whatever the case it is written in."""
        found = self.queries.get(query_id) or self.queries.get(query_id.upper())
        if found is None:
            raise SqlError(
                f"Unknown queryId: {query_id}",
                remedy=did_you_mean(query_id, self.queries, "query", "SHOW QUERIES;"),
            )
        return found

    def readers(self, name: str) -> list[str]:
        """Ids of the queries that read from this source."""
        return sorted(each.id for each in self.queries.values() if name in each.reads)

    def writers(self, name: str) -> list[str]:
        """Ids of the queries that write into this source."""
        return sorted(each.id for each in self.queries.values() if each.sink == name)

    def built_on(self, name: str) -> list[str]:
        """The sources that were made by reading from this one."""
        return sorted(each.name for each in self.sources.values() if name in each.reads)

    # Changed

    def with_source(self, source: Source) -> Catalog:
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


# -- what may be done


def check_new(catalog: Catalog, name: str, kind: SourceKind) -> None:
    """A name is free for a CREATE without OR REPLACE."""
    existing = catalog.sources.get(name)
    if existing is None:
        return
    there = existing.kind.lower()
    raise SqlError(
        f"Cannot add {kind.lower()} '{name}': A {there} with the same name already exists",
        remedy=f"Drop it first (DROP {existing.kind} {name};), or choose another name"
        " or CREATE OR REPLACE or IF NOT EXISTS.",
    )


def check_replace(catalog: Catalog, new: Source) -> None:
    """CREATE OR REPLACE may add value columns at the end, and change nothing that is there."""
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
    """What SOURCE says stays as it was read."""
    return SqlError(
        f"Cannot add {kind.lower()} '{name}': CREATE OR REPLACE is not supported on source"
        f" {kind.lower()}s.",
        remedy=f"Leave out OR REPLACE, and DROP {kind} {name}; first if it is there.",
    )


def _not_upgradeable(old: Source, new: Source) -> Iterable[str]:
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


def _window_text(source: Source) -> str:
    windowed = source.layout.windowed
    return f"{windowed.kind} {windowed.size_ms}" if windowed else "none"


def _schema_trouble(old: Schema, new: Schema) -> str:
    if old.key != new.key:
        return "Key columns must be identical."
    kept = new.columns
    changed = [
        column_text(each)
        for index, each in enumerate(old.columns)
        if index >= len(kept) or kept[index] != each
    ]
    if changed:
        return f"The following columns are changed, missing or reordered: [{', '.join(changed)}]"
    return ""


def check_drop(catalog: Catalog, name: str) -> None:
    """A source that others are built on, or that INSERT INTO queries use, stays.

    The query that fills it does not count: it ends with what it fills.
    """
    source = catalog.sources[name]
    above = catalog.built_on(name)
    if above:
        raise SqlError(
            f"Cannot drop {name}.\n"
            f"The following streams and/or tables read from this source: [{', '.join(above)}].\n"
            f"You need to drop them before dropping {name}.",
            remedy=" ".join(f"DROP {catalog.sources[each].kind} {each};" for each in above),
        )
    readers = catalog.readers(name)
    writers = [each for each in catalog.writers(name) if each != source.query_id]
    if readers or writers:
        raise SqlError(
            f"Cannot drop {name}.\n"
            f"The following queries read from this source: [{', '.join(readers)}].\n"
            f"The following queries write into this source: [{', '.join(writers)}].\n"
            f"You need to terminate them before dropping {name}.",
            remedy=" ".join(f"TERMINATE {each};" for each in dict.fromkeys(readers + writers)),
        )


def altered(catalog: Catalog, name: str, kind: SourceKind, columns: Iterable[Element]) -> Source:
    """The source with these columns behind its own; SqlError where that can't be."""
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
            remedy=f"Drop it and define it anew: DROP {kind} {name};",
        )
    added = list(source.schema.columns)
    for each in columns:
        if any(each.name == there.name for there in added):
            raise SqlError(
                f"Cannot add column `{each.name}` to schema. A column with the same name already"
                " exists.",
                remedy=f"DESCRIBE {name}; shows the columns there are.",
            )
        added.append(Column(each.name, each.type, Role.VALUE))
    return replace(source, layout=replace(source.layout, schema=Schema(tuple(added))))


# -- how things are written


def schema_text(schema: Schema) -> str:
    """As ksqlDB writes a schema: "`ID` STRING KEY, `NAME` STRING"."""
    return ", ".join(column_text(each) for each in schema.columns)


def column_text(column: Column) -> str:
    if column.role is Role.HEADER:
        return f"`{column.name}` {column.type} HEADER('{column.header}')"
    suffix = "" if column.role is Role.VALUE else f" {column.role}"
    return f"`{column.name}` {column.type}{suffix}"


def did_you_mean(name: str, there: Iterable[str], what: str, show: str = "") -> str:
    """The names that look like this one, or how to see those there are."""
    close = close_names(name, there)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    if show:
        return f"{show} lists each {what} there is."
    return "SHOW STREAMS; and SHOW TABLES; list what there is."


def close_names(name: str, there: Iterable[str]) -> list[str]:
    folded = {each.upper(): each for each in there}
    close = difflib.get_close_matches(name.upper(), folded, SUGGESTIONS_MAX)
    return [folded[each] for each in close]


def _without(mapping: Mapping[str, _T], name: str) -> dict[str, _T]:
    return {key: value for key, value in mapping.items() if key != name}
