"""ASSERT VALUES, ASSERT NULL VALUES, ASSERT STREAM and ASSERT TABLE, of the SQL's test tool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.rows.formats import Decoder
from ottla.rows.schema import DELETED, ROWTIME, Role
from ottla.rows.types import BIGINT, SqlType
from ottla.sql.catalog import Source
from ottla.sql.definitions import define
from ottla.sql.expressions import constant
from ottla.sql.syntax.statements import AssertSource, AssertValues

if TYPE_CHECKING:
    from ottla.sql.driver import SqlTestDriver

SHOWN_MAX: Final = 20


class AssertionFailure(AssertionError):
    """An ASSERT that does not hold."""


class Assertions:
    """Each record of a topic is asserted once, in order."""

    def __init__(self, driver: SqlTestDriver) -> None:
        self._driver = driver
        self._read: dict[str, int] = {}

    def values(self, statement: AssertValues) -> None:
        source = self._driver.source(statement.name)
        expected = _expected(source, statement)
        records = self._driver.records(source.topic)
        place = self._read.get(source.topic, 0)
        decoder = Decoder(source.layout, self._driver.registry)

        def row(number: int) -> dict[str, Any]:
            each = records[number]
            return decoder.row(each.key, each.value, each.timestamp, headers=each.headers)

        if place >= len(records):
            told = [_shown(row(number), expected) for number in range(place)][-SHOWN_MAX:]
            raise AssertionFailure(
                "Expected another record, but all records have already been read:\n"
                f"EXPECTED {_shown(expected, expected)}"
                + "".join(f"\nREAD     {each}" for each in told)
            )
        self._read[source.topic] = place + 1
        found = row(place)
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
        for what, one, other in _properties(defined, found):
            if one != other:
                raise _mismatch(what, wanted.name, one, other)


def _properties(wanted: Source, found: Source) -> Sequence[tuple[str, Any, Any]]:
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


def _expected(source: Source, statement: AssertValues) -> dict[str, Any]:
    types: dict[str, SqlType] = {each.name: each.type for each in source.schema.columns}
    types[ROWTIME] = BIGINT
    names = statement.columns or tuple(each.name for each in source.schema.columns)
    unknown = [each for each in names if each not in types]
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
    source: Source,
    statement: AssertValues,
    expected: Mapping[str, Any],
    found: Mapping[str, Any],
) -> bool:
    """A tombstone has its key; else all columns that are named are compared."""
    if statement.tombstone != found[DELETED]:
        return False
    names = list(expected)
    if statement.tombstone:
        keys = {each.name for each in source.schema.columns if each.role is Role.KEY}
        names = [each for each in names if each in keys or each == ROWTIME]
    return all(expected[name] == found[name] for name in names)


def _shown(row: Mapping[str, Any], like: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={row.get(name)!r}" for name in like)
