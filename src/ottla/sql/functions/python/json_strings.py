"""Functions of JSON texts. Numbers keep their text: 1.50 does not become 1.5."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.rows.java.text import java_double
from ottla.rows.types import SqlBaseType, SqlType
from ottla.sql.conversions import text_of

STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


class JsonNumber(str):
    """A number of a JSON text."""


def _read(text: str, *, whole: bool = True) -> Any:
    """Parse JSON; ValueError if it is invalid. With `whole=False` other text may follow it."""
    decoder = json.JSONDecoder(parse_float=JsonNumber, parse_int=JsonNumber, parse_constant=_refuse)
    if whole:
        return decoder.decode(text)
    return decoder.raw_decode(text.lstrip(" \t\r\n"))[0]


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _written(value: Any) -> str:
    if isinstance(value, JsonNumber):
        return str(value)
    if isinstance(value, dict):
        inner = (f"{_written(key)}:{_written(entry)}" for key, entry in value.items())
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str | None:
    """A value as text: strings without quotes, None for null."""
    if value is None:
        return None
    return str(value) if isinstance(value, str) else _written(value)


def extract_json_field(text: str, path: str) -> str | None:
    steps = list(STEP.finditer(path, 1))
    if not path.startswith("$") or sum(len(step.group()) for step in steps) != len(path) - 1:
        return None
    value = _read(text, whole=False)
    for step in steps:
        name, index, quoted = step.groups()
        key = name if name is not None else quoted
        if key is not None and isinstance(value, dict):
            value = value.get(key)
        elif index is not None and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return _shown(value)


def is_json_string(text: str | None) -> bool:
    try:
        _read(text or "")
    except ValueError:
        return False
    return True


def json_array_contains(text: str | None, value: Any) -> bool:
    """Compared as JSON: '"3"' is not 3."""
    try:
        values = _read(text or "")
    except ValueError:
        return False
    if not isinstance(values, list):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        wanted = Decimal(repr(value))
        return any(isinstance(other, JsonNumber) and Decimal(other) == wanted for other in values)
    return any(type(other) is type(value) and other == value for other in values)


def json_array_length(text: str) -> int | None:
    values = _read(text)
    return len(values) if isinstance(values, list) else None


def json_concat(*texts: str | None) -> str | None:
    """Merge objects, with the last value of a name; concatenate anything else to an array."""
    try:
        values = [_read(text or "") for text in texts]
    except ValueError:
        return None
    if all(isinstance(other, dict) for other in values):
        return _written({name: entry for value in values for name, entry in value.items()})
    joined: list[Any] = []
    for other in values:
        joined += other if isinstance(other, list) else [other]
    return _written(joined)


def json_items(text: str) -> list[str | None] | None:
    values = _read(text)
    return [_shown(other) for other in values] if isinstance(values, list) else None


def json_keys(text: str) -> list[str] | None:
    values = _read(text)
    return list(values) if isinstance(values, dict) else None


def json_records(text: str) -> dict[str, str | None] | None:
    values = _read(text)
    if not isinstance(values, dict):
        return None
    return {name: _shown(value) for name, value in values.items()}


def to_json_string(_: SqlType, type_: SqlType | None) -> Callable[[Any], str]:
    """Any value as JSON, including NULL."""
    write = _writer(type_) if type_ is not None else _null
    return lambda value: "null" if value is None else write(value)


def _null(_: Any) -> str:
    return "null"


def _writer(type_: SqlType) -> Callable[[Any], str]:
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        element = to_json_string(type_, type_.element)
        return lambda values: "[" + ",".join(map(element, values)) + "]"
    if type_.kind is SqlBaseType.MAP:
        assert type_.key is not None
        assert type_.element is not None
        value, name = to_json_string(type_, type_.element), text_of(type_.key)
        return lambda entries: _object((name(key), value(entry)) for key, entry in entries.items())
    if type_.kind is SqlBaseType.STRUCT:
        fields = [(field.name, to_json_string(type_, field.type)) for field in type_.fields]
        return lambda struct: _object((name, write(struct.get(name))) for name, write in fields)
    return SCALARS.get(type_.kind) or _quoted(text_of(type_))


def _quoted(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: json.dumps(show(value), ensure_ascii=False)


def _object(fields: Any) -> str:
    named = (f"{json.dumps(name, ensure_ascii=False)}:{field}" for name, field in fields)
    return "{" + ",".join(named) + "}"


SCALARS: Final[dict[SqlBaseType, Callable[[Any], str]]] = {
    SqlBaseType.BOOLEAN: lambda value: "true" if value else "false",
    SqlBaseType.INTEGER: str,
    SqlBaseType.BIGINT: str,
    SqlBaseType.DOUBLE: lambda value: (
        java_double(value) if value - value == 0 else f'"{java_double(value)}"'
    ),
    SqlBaseType.DECIMAL: lambda value: f"{value:f}",
    SqlBaseType.BYTES: lambda value: f'"{base64.b64encode(value).decode()}"',
}
