"""JSON as text. Numbers stay as they are written: 1.50 is not 1.5."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from ottla.rows.java.text import java_double
from ottla.rows.types import Kind, SqlType
from ottla.sql.conversions import text_of

STEP: Final = re.compile(r"\.([^.\[\]]+)|\[(\d+)\]|\['([^']*)'\]")


class Number(str):
    """A number of a JSON text."""


def _read(text: str, *, whole: bool = True) -> Any:
    """ValueError for what is no JSON; with `whole=False` something else may follow."""
    decoder = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=_refuse)
    if whole:
        return decoder.decode(text)
    return decoder.raw_decode(text.lstrip(" \t\r\n"))[0]


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _written(value: Any) -> str:
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, dict):
        inner = (f"{_written(key)}:{_written(each)}" for key, each in value.items())
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str | None:
    """A text without its quotes, and nothing for null."""
    if value is None:
        return None
    return str(value) if isinstance(value, str) else _written(value)


def field(text: str, path: str) -> str | None:
    steps = list(STEP.finditer(path, 1))
    if not path.startswith("$") or sum(len(each.group()) for each in steps) != len(path) - 1:
        return None
    value = _read(text, whole=False)
    for each in steps:
        name, index, quoted = each.groups()
        key = name if name is not None else quoted
        if key is not None and isinstance(value, dict):
            value = value.get(key)
        elif index is not None and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            return None
    return _shown(value)


def is_json(text: str | None) -> bool:
    try:
        _read(text or "")
    except ValueError:
        return False
    return True


def contains(text: str | None, value: Any) -> bool:
    """Compared as JSON: '"3"' is not 3."""
    try:
        values = _read(text or "")
    except ValueError:
        return False
    if not isinstance(values, list):
        return False
    if isinstance(value, int | float) and not isinstance(value, bool):
        wanted = Decimal(repr(value))
        return any(isinstance(each, Number) and Decimal(each) == wanted for each in values)
    return any(type(each) is type(value) and each == value for each in values)


def length(text: str) -> int | None:
    values = _read(text)
    return len(values) if isinstance(values, list) else None


def concatenated(*texts: str | None) -> str | None:
    """Objects become one, the last of a name wins; else all become one array."""
    try:
        values = [_read(each or "") for each in texts]
    except ValueError:
        return None
    if all(isinstance(each, dict) for each in values):
        return _written({name: each for value in values for name, each in value.items()})
    joined: list[Any] = []
    for each in values:
        joined += each if isinstance(each, list) else [each]
    return _written(joined)


def items(text: str) -> list[str | None] | None:
    values = _read(text)
    return [_shown(each) for each in values] if isinstance(values, list) else None


def keys(text: str) -> list[str] | None:
    values = _read(text)
    return list(values) if isinstance(values, dict) else None


def records(text: str) -> dict[str, str | None] | None:
    values = _read(text)
    if not isinstance(values, dict):
        return None
    return {name: _shown(each) for name, each in values.items()}


def to_json(_: SqlType, type_: SqlType | None) -> Callable[[Any], str]:
    """Any value as JSON, a NULL too."""
    write = _writer(type_) if type_ is not None else _null
    return lambda value: "null" if value is None else write(value)


def _null(_: Any) -> str:
    return "null"


def _writer(type_: SqlType) -> Callable[[Any], str]:
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        element = to_json(type_, type_.element)
        return lambda values: "[" + ",".join(map(element, values)) + "]"
    if type_.kind is Kind.MAP:
        assert type_.key is not None
        assert type_.element is not None
        value, name = to_json(type_, type_.element), text_of(type_.key)
        return lambda entries: _object((name(key), value(each)) for key, each in entries.items())
    if type_.kind is Kind.STRUCT:
        fields = [(each.name, to_json(type_, each.type)) for each in type_.fields]
        return lambda struct: _object((name, write(struct.get(name))) for name, write in fields)
    return SCALARS.get(type_.kind) or _quoted(text_of(type_))


def _quoted(show: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: json.dumps(show(value), ensure_ascii=False)


def _object(fields: Any) -> str:
    named = (f"{json.dumps(name, ensure_ascii=False)}:{each}" for name, each in fields)
    return "{" + ",".join(named) + "}"


SCALARS: Final[dict[Kind, Callable[[Any], str]]] = {
    Kind.BOOLEAN: lambda value: "true" if value else "false",
    Kind.INTEGER: str,
    Kind.BIGINT: str,
    Kind.DOUBLE: lambda value: (
        java_double(value) if value - value == 0 else f'"{java_double(value)}"'
    ),
    Kind.DECIMAL: lambda value: f"{value:f}",
    Kind.BYTES: lambda value: f'"{base64.b64encode(value).decode()}"',
}
