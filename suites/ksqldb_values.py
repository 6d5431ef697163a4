"""Records of ksqlDB's cases: from JSON to bytes in the format of a topic, and back to compare."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal, localcontext
from typing import Any, Final, Protocol

from ottla.client.schema_registry import SchemaRegistry
from ottla.engine.records import Headers
from ottla.rows.formats.codec import codec_of
from ottla.rows.formats.scalars import epoch_ms_of
from ottla.rows.formats.windows import WindowKeys
from ottla.rows.schema import Column, FormatInfo, Layout
from ottla.rows.schema_inference import infer_columns
from ottla.rows.schema_properties import SCHEMA_ID
from ottla.rows.types import SqlBaseType, SqlType
from ottla.schemas.framing import split_frame
from ottla.schemas.schema_types import Reference
from ottla.sql.testing.memory_topics import MemoryRecord

REGISTERED: Final = ("AVRO", "JSON_SR", "PROTOBUF")
KINDS: Final = {"AVRO": "AVRO", "JSON": "JSON", "JSON_SR": "JSON", "PROTOBUF": "PROTOBUF"}
FREE_ID: Final = 100_000
"""For schemas without an id in a case that gives others one: no case has so large an id."""
DIGITS_MAX: Final = 100
EPSILON: Final = 0.000_001
EPOCH: Final = date(1970, 1, 1)


class BadCase(Exception):
    """A value that this harness can't write or read."""


class CaseRegistry(Protocol):
    """A registry in memory, or a context of one that runs."""

    def register(
        self,
        subject: str,
        kind: str,
        text: str,
        references: Sequence[Reference] = (),
        *,
        id: int | None = None,
    ) -> object: ...


def register_schemas(
    registry: CaseRegistry, topic: dict[str, Any], wanted: Sequence[tuple[str, str]]
) -> None:
    """`wanted`: part and id that the statements name; a case may rely on its harness for them."""
    ids = {part.lower(): int(number) for part, number in wanted}
    for part in ("key", "value"):
        schema = topic.get(f"{part}Schema")
        if schema is None:
            continue
        kind = KINDS[str(topic.get(f"{part}Format") or _kind_of(schema)).upper()]
        text = schema if isinstance(schema, str) and kind == "PROTOBUF" else json_text(schema)
        known = topic.get(f"{part}SchemaId", ids.get(part))
        references = []
        for number, reference in enumerate(topic.get(f"{part}SchemaReferences", ()), FREE_ID):
            text_of = _text(reference["schema"], kind)
            registry.register(reference["name"], kind, text_of, id=number if known else None)
            references.append(Reference(reference["name"], reference["name"], 1))
        registry.register(f"{topic['name']}-{part}", kind, text, references, id=known)


def _text(schema: Any, kind: str) -> str:
    return schema if kind == "PROTOBUF" else json_text(schema)


def _kind_of(schema: Any) -> str:
    if isinstance(schema, str):
        return "PROTOBUF" if "message" in schema or "syntax" in schema else "AVRO"
    return "JSON" if isinstance(schema, dict) and "properties" in schema else "AVRO"


# -- to bytes


def encoded(
    record: dict[str, Any], layout: Layout | None, registry: SchemaRegistry
) -> tuple[bytes | None, bytes | None]:
    key, value = record.get("key"), record.get("value")
    if layout is None:
        return _raw(key), _raw(value)
    key_data = _bytes(key, layout.key_format, layout.schema.key, registry, of_key=True)
    window = record.get("window")
    if window is not None and key_data is not None and layout.windowed is not None:
        windows = WindowKeys(layout.windowed)
        key_data = windows.join_row(key_data, window["start"], window["end"])
    return key_data, _bytes(value, layout.value_format, layout.schema.value, registry, of_key=False)


def json_text(value: Any) -> str:
    """JSON with all digits of a number, which `json.dumps` does not write."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(name)}:{json_text(item)}" for name, item in value.items())
        return f"{{{','.join(pairs)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(json_text, value))}]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


def _raw(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json_text(value).encode()


def _bytes(
    value: Any,
    format_: FormatInfo,
    columns: Sequence[Column],
    registry: SchemaRegistry,
    *,
    of_key: bool,
) -> bytes | None:
    if value is None:
        return None
    name = format_.name.upper()
    if name == "JSON":
        return json_text(value).encode()
    if name == "DELIMITED":
        return str(value).encode()
    if name == "NONE":
        return _raw(value)
    half = codec_of(format_, columns, of_key=of_key, registry=registry)
    if name == "KAFKA":
        try:
            return half.write_row([_typed(value, column.type) for column in columns])
        except (ValueError, TypeError):
            return str(value).encode()
    if len(columns) == 1 and not (isinstance(value, dict) and _has(value, columns[0].name)):
        return half.write_row([_typed(value, columns[0].type)])
    if not isinstance(value, dict):
        raise BadCase(f"{name} of {value!r}")
    by_name = {str(key).upper(): item for key, item in value.items()}
    return half.write_row([_typed(by_name.get(c.name.upper()), c.type) for c in columns])


def _has(value: dict[str, Any], name: str) -> bool:
    return name.upper() in {str(item).upper() for item in value}


def _typed(value: Any, type_: SqlType) -> Any:
    if value is None:
        return None
    match type_.kind:
        case SqlBaseType.INTEGER | SqlBaseType.BIGINT:
            return int(value)
        case SqlBaseType.DOUBLE:
            return float(value)
        case SqlBaseType.DECIMAL:
            with localcontext(prec=DIGITS_MAX):
                return Decimal(str(value)).quantize(Decimal(1).scaleb(-type_.scale))
        case SqlBaseType.STRING:
            return value if isinstance(value, str) else json_text(value)
        case SqlBaseType.BYTES:
            return base64.b64decode(value)
        case SqlBaseType.DATE:
            return _date(int(value))
        case SqlBaseType.ARRAY:
            assert type_.element is not None
            return [_typed(item, type_.element) for item in value]
        case SqlBaseType.MAP:
            assert type_.element is not None
            return {key: _typed(item, type_.element) for key, item in value.items()}
        case SqlBaseType.STRUCT:
            by_name = {str(key).upper(): item for key, item in value.items()}
            return {
                field.name: _typed(by_name.get(field.name.upper()), field.type)
                for field in type_.fields
            }
        case SqlBaseType.TIME:
            seconds, rest = divmod(int(value), 1000)
            return time(seconds // 3600, seconds // 60 % 60, seconds % 60, rest * 1000)
        case SqlBaseType.TIMESTAMP:
            return datetime(1970, 1, 1) + timedelta(milliseconds=int(value))
    return value


def _date(days: int) -> date:
    try:
        return EPOCH + timedelta(days=days)
    except OverflowError:
        raise BadCase(f"a date {days} days from 1970, which Python does not have") from None


def headers_of(record: dict[str, Any]) -> Headers | None:
    found = record.get("headers")
    if found is None:
        return None
    return tuple(
        (item["KEY"], None if item["VALUE"] is None else base64.b64decode(item["VALUE"]))
        for item in found
    )


# -- to be compared


def decoded(record: MemoryRecord, layout: Layout, registry: SchemaRegistry) -> dict[str, Any]:
    key, window = record.key, None
    if layout.windowed is not None and key is not None:
        key, start, end = WindowKeys(layout.windowed).split_row(key)
        window = start, end
    return {
        "key": _value(key, layout.key_format, layout.schema.key, registry, of_key=True),
        "value": _value(
            record.value, layout.value_format, layout.schema.value, registry, of_key=False
        ),
        "window": window,
        "timestamp": record.timestamp,
        "headers": record.headers,
    }


def _value(
    data: bytes | None,
    format_: FormatInfo,
    columns: Sequence[Column],
    registry: SchemaRegistry,
    *,
    of_key: bool,
) -> Any:
    if data is None:
        return None
    name = format_.name.upper()
    if name == "JSON":
        return json.loads(data, parse_float=Decimal)
    if name in ("DELIMITED", "NONE"):
        return data.decode()
    if name in REGISTERED and not of_key and SCHEMA_ID in format_.properties:
        columns = _written(data, format_, columns, registry)
    half = codec_of(format_, columns, of_key=of_key, registry=registry)
    values = half.read_row(data)
    alone = len(columns) == 1 and (of_key or not format_.wrapped)
    if name == "KAFKA" or (alone and not name.startswith("PROTOBUF")):
        return plain(values[0]) if values else None
    return {column.name: plain(value) for column, value in zip(columns, values, strict=True)}


def _written(
    data: bytes, format_: FormatInfo, columns: Sequence[Column], registry: SchemaRegistry
) -> Sequence[Column]:
    """All columns of the writer's schema, if the topic has one."""
    schema = registry.by_id(split_frame(data)[0].id)
    properties = dict(format_.properties)
    fields = infer_columns(registry, schema, properties, part="VALUE", wrapped=format_.wrapped)
    return [Column(field.name, field.type) for field in fields] if format_.wrapped else columns


def plain(value: Any) -> Any:
    """A value as ksqlDB's cases write it."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return epoch_ms_of(value)
    if isinstance(value, date):
        return (value - EPOCH).days
    if isinstance(value, time):
        return (value.hour * 3600 + value.minute * 60 + value.second) * 1000 + (
            value.microsecond // 1000
        )
    return value


def same(expected: Any, found: Any) -> bool:
    """Compares as ksqlDB's harness does: names in any case, decimals as numbers or text."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if len(expected) != len(found):
            return False
        return all(
            same(item, found.get(name, found.get(name.upper()))) for name, item in expected.items()
        )
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(same, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if _is_number(expected) and _is_number(found):
        return _same_number(expected, found)
    if isinstance(expected, str) and isinstance(found, Decimal):
        return Decimal(expected) == found
    return bool(expected == found)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal)


def _same_number(expected: Any, found: Any) -> bool:
    """Text is compared by digits; a DOUBLE in text may differ in the last one."""
    if isinstance(found, float):
        return abs(float(expected) - found) < EPSILON or float(expected) == found
    if Decimal(expected) == Decimal(found):
        return True
    # Java before 19 wrote more digits than a double needs.
    return len(Decimal(expected).as_tuple().digits) >= 17 and float(expected) == float(found)
