"""What a stream or table has in it, and how its rows lie in the records of a topic.

A Layout is all that is needed to turn a record into a row and back. It is plain data and travels as
JSON, in the option `ottla.layout` of the source and the sink, to wherever Spark does the work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ottla.rows.schema_properties import INFERRED
from ottla.rows.types import BIGINT, INTEGER, SqlType, spark_name

ROWTIME: Final = "ROWTIME"
ROWPARTITION: Final = "ROWPARTITION"
ROWOFFSET: Final = "ROWOFFSET"
WINDOWSTART: Final = "WINDOWSTART"
WINDOWEND: Final = "WINDOWEND"
DELETED: Final = "__DELETED"
"""Not a column of the SQL: true in the row of a tombstone, whose value columns are all null."""

PSEUDO_COLUMNS: Final[Mapping[str, SqlType]] = {
    ROWTIME: BIGINT,
    ROWPARTITION: INTEGER,
    ROWOFFSET: BIGINT,
}
WINDOW_BOUNDS: Final[Mapping[str, SqlType]] = {WINDOWSTART: BIGINT, WINDOWEND: BIGINT}


class Role(StrEnum):
    KEY = "KEY"
    VALUE = "VALUE"
    HEADERS = "HEADERS"
    """All headers, as ARRAY<STRUCT<KEY STRING, VALUE BYTES>>."""
    HEADER = "HEADER"
    """The last header of that name, as BYTES."""


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: SqlType
    role: Role = Role.VALUE
    header: str = ""


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a stream or table, as they were declared."""

    columns: tuple[Column, ...]

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.role is Role.KEY)

    @property
    def value(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.role is Role.VALUE)

    @property
    def headers(self) -> tuple[Column, ...]:
        return tuple(each for each in self.columns if each.role in (Role.HEADERS, Role.HEADER))

    def find(self, name: str) -> Column | None:
        return next((each for each in self.columns if each.name == name), None)


class WindowKind(StrEnum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class Windowed:
    """The key of each record has a window: its start, and for sessions its end (no size)."""

    kind: WindowKind
    size_ms: int = 0


FORMATS: Final = (
    "NONE",
    "KAFKA",
    "DELIMITED",
    "JSON",
    "AVRO",
    "JSON_SR",
    "PROTOBUF",
    "PROTOBUF_NOSR",
)


@dataclass(frozen=True, slots=True)
class Format:
    """How a key or a value is written: one of FORMATS.

    `wrapped` is WRAP_SINGLE_VALUE: a single column is a field of an object, or stands alone.
    """

    name: str
    wrapped: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """How rows lie in the records of a topic; `timestamp` is the column that ROWTIME is read from.

    As columns of a DataFrame: those of the schema in their order, then ROWTIME, ROWPARTITION and
    ROWOFFSET; WINDOWSTART and WINDOWEND where windowed; DELETED last. Partition and offset are
    of no use to the sink, and may be missing there, as may DELETED, where nothing is deleted.

    `always_keyed`: a record that is written has a key though all of its columns be NULL; without it
    such a record has none.
    """

    schema: Schema
    key_format: Format
    value_format: Format
    is_table: bool = False
    windowed: Windowed | None = None
    timestamp: str = ""
    timestamp_format: str = ""
    always_keyed: bool = False

    @property
    def reads_headers(self) -> bool:
        """A column comes from them, or a record may name its schemas there."""
        names = {self.key_format.name.upper(), self.value_format.name.upper()}
        return bool(self.schema.headers) or not names.isdisjoint(INFERRED)

    def to_json(self) -> str:
        return json.dumps(
            {
                "columns": [
                    [each.name, each.type.to_json(), each.role, each.header]
                    for each in self.schema.columns
                ],
                "key": _format_to_json(self.key_format),
                "value": _format_to_json(self.value_format),
                "table": self.is_table,
                "window": [self.windowed.kind, self.windowed.size_ms] if self.windowed else None,
                "timestamp": [self.timestamp, self.timestamp_format],
                **({"always_keyed": True} if self.always_keyed else {}),
            }
        )

    @staticmethod
    def from_json(text: str) -> Layout:
        data = json.loads(text)
        return Layout(
            schema=Schema(
                tuple(
                    Column(name, SqlType.from_json(kind), Role(role), header)
                    for name, kind, role, header in data["columns"]
                )
            ),
            key_format=_format_from_json(data["key"]),
            value_format=_format_from_json(data["value"]),
            is_table=data["table"],
            windowed=_windowed(data["window"]),
            timestamp=data["timestamp"][0],
            timestamp_format=data["timestamp"][1],
            always_keyed=data.get("always_keyed", False),
        )

    def spark_schema(self) -> str:
        """The columns of the source's DataFrame, as Spark reads a schema."""
        columns = [f"{spark_name(each.name)} {each.type.spark}" for each in self.schema.columns]
        hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if self.windowed else {})}
        columns += [f"{spark_name(name)} {each.spark}" for name, each in hidden.items()]
        return ", ".join([*columns, f"{spark_name(DELETED)} boolean"])


def _format_to_json(format_: Format) -> list[Any]:
    return [format_.name, format_.wrapped, dict(format_.properties)]


def _format_from_json(data: list[Any]) -> Format:
    return Format(data[0], data[1], data[2])


def _windowed(data: list[Any] | None) -> Windowed | None:
    return Windowed(WindowKind(data[0]), data[1]) if data else None
