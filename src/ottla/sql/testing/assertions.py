"""ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM and ASSERT TABLE, as in ksqlDB's test tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.rows.formats import Decoder
from ottla.rows.schema import DELETED, ROWTIME, Role
from ottla.rows.types import BIGINT, SqlType
from ottla.sql.catalog import DataSource
from ottla.sql.definitions import define
from ottla.sql.expressions import constant
from ottla.sql.syntax.statements import AssertSource, AssertValues

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver

SHOWN_MAX: Final = 20


class AssertionFailure(AssertionError):
    """A failed ASSERT."""


class Assertions:
    """Executes ASSERTs; each compares the next record of a topic."""

    def __init__(self, driver: SqlTestDriver) -> None:
        self._driver = driver
        self._read: dict[str, int] = {}

    def values(self, statement: AssertValues) -> None:
        source = self._driver.source(statement.name)
        expected = _expected(source, statement)
        records = self._driver.records(source.topic)
        position = self._read.get(source.topic, 0)
        decoder = Decoder(source.layout, self._driver.registry)

        def row(number: int) -> dict[str, Any]:
            record = records[number]
            return decoder.row(record.key, record.value, record.timestamp, headers=record.headers)

        if position >= len(records):
            read = [_shown(row(number), expected) for number in range(position)][-SHOWN_MAX:]
            raise AssertionFailure(
                "Expected another record, but all records have already been read:\n"
                f"EXPECTED {_shown(expected, expected)}"
                + "".join(f"\nREAD     {row}" for row in read)
            )
        self._read[source.topic] = position + 1
        found = row(position)
        if not _matches(source, statement, expected, found):
            raise AssertionFailure(
                "Expected record does not match actual.\n"
                f"EXPECTED {'<TOMBSTONE> ' if statement.tombstone else ''}"
                f"{_shown(expected, expected)}\n"
                f"ACTUAL   {'<TOMBSTONE> ' if found[DELETED] else ''}{_shown(found, expected)}"
            )

    def source(self, statement: AssertSource) -> None:
        wanted = statement.definition
        found = self._driver.source(wanted.name)
        if found.kind is not wanted.kind:
            raise _mismatch("type", wanted.name, wanted.kind, found.kind)
        settings = self._driver.engine.settings.session
        defined = define(wanted, lambda _: found.partitions or 1, settings).source
        if defined.schema != found.schema:
            raise _mismatch("schema", wanted.name, defined.schema, found.schema)
        for what, expected, other in _properties(defined, found):
            if expected != other:
                raise _mismatch(what, wanted.name, expected, other)


def _properties(wanted: DataSource, found: DataSource) -> Sequence[tuple[str, Any, Any]]:
    one, other = wanted.layout, found.layout
    return (
        ("kafka topic", wanted.topic, found.topic),
        ("key format", one.key_format.name, other.key_format.name),
        ("value format", one.value_format.name, other.value_format.name),
        ("value serde features", one.value_format.wrapped, other.value_format.wrapped),
        ("timestamp column", one.timestamp, other.timestamp),
        ("timestamp format", one.timestamp_format, other.timestamp_format),
    )


def _mismatch(what: str, name: str, expected: Any, found: Any) -> AssertionFailure:
    return AssertionFailure(
        f"Expected {what} does not match actual for source {name}.\n"
        f"EXPECTED {expected}\nACTUAL   {found}"
    )


def _expected(source: DataSource, statement: AssertValues) -> dict[str, Any]:
    types: dict[str, SqlType] = {column.name: column.type for column in source.schema.columns}
    types[ROWTIME] = BIGINT
    names = statement.columns or tuple(column.name for column in source.schema.columns)
    unknown = [name for name in names if name not in types]
    if unknown:
        raise AssertionFailure(f"{source.name} has no column {', '.join(unknown)}.")
    if len(names) != len(statement.values):
        raise AssertionFailure(
            f"Expected a value for each column: {len(names)} columns,"
            f" {len(statement.values)} values."
        )
    pairs = zip(names, statement.values, strict=True)
    return {name: constant(value, types[name]) for name, value in pairs}


def _matches(
    source: DataSource,
    statement: AssertValues,
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
) -> bool:
    """Compare the named columns; of a tombstone, the key."""
    if statement.tombstone != found[DELETED]:
        return False
    names = list(expected)
    if statement.tombstone:
        keys = {column.name for column in source.schema.columns if column.role is Role.KEY}
        names = [name for name in names if name in keys or name == ROWTIME]
    return all(expected[name] == found[name] for name in names)


def _shown(row: Mapping[str, Any], like: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={row.get(name)!r}" for name in like)
