"""Values of the SQL as JSON, in the way ksqlDB's REST writes them."""

from __future__ import annotations

import base64
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import orjson

from ottla.spark.sql.engine.answer import Answer, Row


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
        "columnTypes": [str(each) for each in answer.types],
    }


def old_header(answer: Answer) -> dict[str, Any]:
    """The first object of /query, and of /ws/query."""
    pairs = zip(answer.names, answer.types, strict=True)
    schema = ", ".join(f"`{name}` {type_}" for name, type_ in pairs)
    return {"header": {"queryId": answer.query_id, "schema": schema}}


def old_row(row: Row) -> dict[str, Any]:
    columns = [plain(each) for each in row.values]
    return {"row": {"columns": columns, **({"tombstone": True} if row.deleted else {})}}
