"""The columns of a stream or table, and how records of a topic represent its rows.

A Layout has all that is needed to convert a record to a row and back. It is plain data, and travels
to Spark's workers as JSON in the option `ottla.layout` of the source and the sink.
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
"""A hidden column: true in the row of a tombstone, whose value columns are all null."""

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
class LogicalSchema:
    """The columns of a stream or table, in declaration order."""

    columns: tuple[Column, ...]

    @property
    def key(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role is Role.KEY)

    @property
    def value(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role is Role.VALUE)

    @property
    def headers(self) -> tuple[Column, ...]:
        return tuple(
            column for column in self.columns if column.role in (Role.HEADERS, Role.HEADER)
        )

    def find(self, name: str) -> Column | None:
        return next((column for column in self.columns if column.name == name), None)


class WindowKind(StrEnum):
    TUMBLING = "TUMBLING"
    HOPPING = "HOPPING"
    SESSION = "SESSION"


@dataclass(frozen=True, slots=True)
class WindowInfo:
    """The window in each record's key: its start, and for sessions its end (then without size)."""

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
class FormatInfo:
    """The format of keys or values: one of FORMATS.

    `wrapped` is WRAP_SINGLE_VALUE: whether a single column is a field of an object.
    """

    name: str
    wrapped: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Layout:
    """How records of a topic represent rows; `timestamp` is the column that ROWTIME is read from.

    The columns of a DataFrame: the schema's in order, then ROWTIME, ROWPARTITION and ROWOFFSET;
    WINDOWSTART and WINDOWEND if windowed; DELETED last. The sink ignores partition and offset; they
    may be missing there, as may DELETED where nothing is deleted.

    `always_keyed`: the sink writes a key even if all key columns are NULL; otherwise such a record
    has a null key.
    """

    schema: LogicalSchema
    key_format: FormatInfo
    value_format: FormatInfo
    is_table: bool = False
    windowed: WindowInfo | None = None
    timestamp: str = ""
    timestamp_format: str = ""
    always_keyed: bool = False

    @property
    def reads_headers(self) -> bool:
        """True if a column comes from headers, or if they may have the schema ids."""
        names = {self.key_format.name.upper(), self.value_format.name.upper()}
        return bool(self.schema.headers) or not names.isdisjoint(INFERRED)

    def to_json(self) -> str:
        return json.dumps(
            {
                "columns": [
                    [column.name, column.type.to_json(), column.role, column.header]
                    for column in self.schema.columns
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
            schema=LogicalSchema(
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
        """The columns of the source's DataFrame as a Spark schema string."""
        columns = [
            f"{spark_name(column.name)} {column.type.spark}" for column in self.schema.columns
        ]
        hidden = {**PSEUDO_COLUMNS, **(WINDOW_BOUNDS if self.windowed else {})}
        columns += [f"{spark_name(name)} {type_.spark}" for name, type_ in hidden.items()]
        return ", ".join([*columns, f"{spark_name(DELETED)} boolean"])


def _format_to_json(format_: FormatInfo) -> list[Any]:
    return [format_.name, format_.wrapped, dict(format_.properties)]


def _format_from_json(data: list[Any]) -> FormatInfo:
    return FormatInfo(data[0], data[1], data[2])


def _windowed(data: list[Any] | None) -> WindowInfo | None:
    return WindowInfo(WindowKind(data[0]), data[1]) if data else None
