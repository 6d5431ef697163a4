"""Rows and headers as JSON, as in ksqlDB's REST API."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import orjson

from ottla.rows.schema import Column, FormatInfo
from ottla.rows.types import SqlBaseType, SqlField, SqlType, spark_name
from ottla.sql.engine.query_result import QueryResult, Row


def dumps(value: Any) -> bytes:
    return orjson.dumps(value, default=_default, option=orjson.OPT_NON_STR_KEYS)


def row_json(row: Row) -> bytes:
    return dumps([plain(value) for value in row.values])


def plain(value: Any) -> Any:
    """Convert values that orjson writes differently from ksqlDB: decimals, times, bytes, also
    nested."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(name): plain(entry) for name, entry in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case datetime():
            utc = value.astimezone(UTC) if value.tzinfo else value
            return utc.replace(tzinfo=None).isoformat(timespec="milliseconds")
        case date():
            return value.isoformat()
        case time():
            return value.isoformat(timespec="milliseconds" if value.microsecond else "seconds")
        case bytes() | bytearray() | memoryview():
            return base64.b64encode(value).decode()
        case Decimal():
            return orjson.Fragment(format(value, "f"))  # all digits, as a JSON number
    return str(value)


def _default(value: Any) -> Any:
    return plain(value)


def header(answer: QueryResult) -> dict[str, Any]:
    """The first line of /query-stream."""
    return {
        "queryId": answer.query_id,
        "columnNames": answer.names,
        "columnTypes": [type_text(type_) for type_ in answer.types],
    }


def old_header(answer: QueryResult) -> dict[str, Any]:
    """The first object of /query and /ws/query."""
    columns = [
        f"{spark_name(name)} {type_text(type_)}{' KEY' if name in answer.key_names else ''}"
        for name, type_ in zip(answer.names, answer.types, strict=True)
    ]
    return {"header": {"queryId": answer.query_id, "schema": ", ".join(columns)}}


def type_text(type_: SqlType) -> str:
    """A type as in ksqlDB's REST API, with field names always in back quotes."""
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        return f"ARRAY<{type_text(type_.element)}>"
    if type_.kind is SqlBaseType.MAP:
        assert type_.key is not None
        assert type_.element is not None
        return f"MAP<{type_text(type_.key)}, {type_text(type_.element)}>"
    if type_.kind is SqlBaseType.STRUCT:
        fields = (f"{spark_name(field.name)} {type_text(field.type)}" for field in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"
    return str(type_)


class ProtobufRows:
    """Rows as Protobuf messages; the schema is made of the columns."""

    def __init__(self, answer: QueryResult) -> None:
        # Imported here because protobuf is an optional dependency.
        from ottla.rows.formats.protobuf.protobuf_format import ProtobufNoSrFormat
        from ottla.rows.formats.protobuf.types import proto_schema
        from ottla.schemas.schema_types import parse

        columns = [Column(*pair) for pair in zip(answer.names, answer.types, strict=True)]
        self._messages = ProtobufNoSrFormat(FormatInfo("PROTOBUF_NOSR"), columns)
        text = proto_schema([SqlField(column.name, column.type) for column in columns])
        self._schema = parse("PROTOBUF", text, {}).canonical

    def header(self, answer: QueryResult) -> dict[str, Any]:
        return {"header": {"queryId": answer.query_id, "protoSchema": self._schema}}

    def row(self, row: Row) -> dict[str, Any]:
        data = self._messages.write_row(list(row.values)) or b""
        return {"row": {"protobufBytes": base64.b64encode(data).decode()}}


def old_row(row: Row) -> dict[str, Any]:
    columns = [plain(value) for value in row.values]
    return {"row": {"columns": columns, **({"tombstone": True} if row.deleted else {})}}
