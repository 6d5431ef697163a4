"""Values of the SQL as JSON, in the way ksqlDB's REST writes them."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import orjson

from ottla.rows.schema import Column, Format
from ottla.rows.types import Field, Kind, SqlType, spark_name
from ottla.sql.engine.answer import Answer, Row


def dumps(value: Any) -> bytes:
    return orjson.dumps(value, default=_default, option=orjson.OPT_NON_STR_KEYS)


def row_json(row: Row) -> bytes:
    return dumps([plain(each) for each in row.values])


def plain(value: Any) -> Any:
    """What orjson would write another way than ksqlDB: decimals, times, bytes, also deep inside."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(name): plain(each) for name, each in value.items()}
        case list() | tuple():
            return [plain(each) for each in value]
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
            return orjson.Fragment(format(value, "f"))  # every digit, as a number
    return str(value)


def _default(value: Any) -> Any:
    return plain(value)


def header(answer: Answer) -> dict[str, Any]:
    """The first line of /query-stream."""
    return {
        "queryId": answer.query_id,
        "columnNames": answer.names,
        "columnTypes": [type_text(each) for each in answer.types],
    }


def old_header(answer: Answer) -> dict[str, Any]:
    """The first object of /query, and of /ws/query."""
    columns = [
        f"{spark_name(name)} {type_text(type_)}{' KEY' if name in answer.key_names else ''}"
        for name, type_ in zip(answer.names, answer.types, strict=True)
    ]
    return {"header": {"queryId": answer.query_id, "schema": ", ".join(columns)}}


def type_text(type_: SqlType) -> str:
    """As ksqlDB's REST writes it: names of fields are always in back quotes."""
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        return f"ARRAY<{type_text(type_.element)}>"
    if type_.kind is Kind.MAP:
        assert type_.key is not None
        assert type_.element is not None
        return f"MAP<{type_text(type_.key)}, {type_text(type_.element)}>"
    if type_.kind is Kind.STRUCT:
        fields = (f"{spark_name(each.name)} {type_text(each.type)}" for each in type_.fields)
        return f"STRUCT<{', '.join(fields)}>"
    return str(type_)


class RowMessages:
    """The rows of an answer as messages of Protobuf, by a schema that is made of its columns."""

    def __init__(self, answer: Answer) -> None:
        # Not at the top: Protobuf's library is an extra.
        from ottla.rows.formats.protobuf.half import ProtobufNoSr
        from ottla.rows.formats.protobuf.types import proto_schema
        from ottla.schemas.schema_types import parse

        columns = [Column(*pair) for pair in zip(answer.names, answer.types, strict=True)]
        self._messages = ProtobufNoSr(Format("PROTOBUF_NOSR"), columns)
        text = proto_schema([Field(each.name, each.type) for each in columns])
        self._schema = parse("PROTOBUF", text, {}).canonical

    def header(self, answer: Answer) -> dict[str, Any]:
        return {"header": {"queryId": answer.query_id, "protoSchema": self._schema}}

    def row(self, row: Row) -> dict[str, Any]:
        data = self._messages.write_row(list(row.values)) or b""
        return {"row": {"protobufBytes": base64.b64encode(data).decode()}}


def old_row(row: Row) -> dict[str, Any]:
    columns = [plain(each) for each in row.values]
    return {"row": {"columns": columns, **({"tombstone": True} if row.deleted else {})}}
