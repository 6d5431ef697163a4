"""JSON text of Python values: by orjson, or by json where orjson is not installed."""

from __future__ import annotations

import json
from dataclasses import asdict, is_dataclass
from datetime import date, datetime, time
from enum import Enum
from functools import cache
from typing import Any, Final
from uuid import UUID

from ottla.client.serialization_error import SerializationError

_IS_DIGIT: Final = bytes(b"0"[0] if byte in b"0123456789" else b" "[0] for byte in range(256))
_TWENTY_DIGITS: Final = b"0" * 20


def write_json(value: Any) -> bytes:
    orjson = _orjson()
    if orjson is not None:
        try:
            data: bytes = orjson.dumps(value, _plain, orjson.OPT_NON_STR_KEYS)
            return data
        except TypeError:  # an integer of more than 64 bits, or a type that JSON lacks
            pass
    try:
        text = _dumps(value)
        if "NaN" in text or "Infinity" in text:  # orjson writes null
            text = _dumps(json.loads(text, parse_constant=lambda _: None))
        return text.encode()
    except (TypeError, ValueError) as error:
        raise SerializationError(str(error)) from None


def read_json(data: bytes) -> Any:
    """ValueError for bytes that are not JSON."""
    orjson = _orjson()
    # orjson reads an integer of more than 64 bits as a float, so json reads texts that may have
    # one. `find`, because `in` takes three times as long: it tries a number first.
    if orjson is None or data.translate(_IS_DIGIT).find(_TWENTY_DIGITS) >= 0:
        return json.loads(data)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:  # NaN and Infinity are Python's own
        return json.loads(data)


@cache
def _orjson() -> Any:
    """Imported with the first record. It comes with the extras [registry] and [spark]."""
    try:
        import orjson
    except ImportError:
        return None
    return orjson


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: Any) -> Any:
    """Types that json and orjson lack. orjson calls this for sets only."""
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    raise TypeError(f"JSON cannot represent {value!r}")
