"""JSON as Jackson reads and writes it: compact, keys in order, doubles in Java's format.

The same schema must have the same canonical text here and in Confluent's registry.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from json.encoder import encode_basestring
from math import isinf
from typing import Any

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.limits import TEXT_DEPTH_MAX

# A whole string, or one bracket: strings are skipped, because brackets in them do not nest. An
# unterminated string is taken to the end (possessive), and not tried again at each quote in it.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[\]{}]', re.DOTALL)
_ESCAPE = re.compile(r"\\(?:u[0-9a-f]{4}|.)")


def read_json(text: str) -> Any:
    """The value of a JSON text; InvalidSchema if it is not JSON."""
    check_depth(text)
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except json.JSONDecodeError as error:
        raise InvalidSchema(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except (ValueError, RecursionError) as error:  # a number with thousands of digits
        raise InvalidSchema(f"not JSON: {error}") from error


def write_json(value: Any, *, sort_keys: bool = False) -> str:
    """Compact JSON with raw characters instead of escapes, as Jackson writes it."""
    parts: list[str] = []
    _write(value, parts, sort_keys)
    return "".join(parts)


def check_depth(text: str) -> None:
    if text.count("{") + text.count("[") <= TEXT_DEPTH_MAX:
        return  # most texts have fewer brackets altogether
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > TEXT_DEPTH_MAX:
                raise InvalidSchema(f"brackets are nested more than {TEXT_DEPTH_MAX} deep")
        elif token in "]}":
            depth -= 1


def double(value: float) -> str:
    """A double in the format of Java's Double.toString: 1.0E10 for 10000000000.0."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    text = "".join(map(str, digits))
    power = len(digits) + int(exponent) - 1
    return f"{'-' * sign}{text[0]}.{text[1:] or '0'}E{power}"


def _write(value: Any, parts: list[str], sort_keys: bool) -> None:
    if isinstance(value, dict):
        mark = "{"
        for key in sorted(value) if sort_keys else value:
            parts.append(f"{mark}{_string(key)}:")
            _write(value[key], parts, sort_keys)
            mark = ","
        parts.append("{}" if mark == "{" else "}")
    elif isinstance(value, list):
        mark = "["
        for item in value:
            parts.append(mark)
            _write(item, parts, sort_keys)
            mark = ","
        parts.append("[]" if mark == "[" else "]")
    elif isinstance(value, str):
        parts.append(_string(value))
    elif isinstance(value, float):
        parts.append(double(value))
    else:
        parts.append("null" if value is None else str(value).lower())  # true, false, 17


def _string(value: str) -> str:
    # Not json.dumps, which builds an encoder for each text that may have non-ASCII letters.
    text = encode_basestring(value)
    if "\\" not in text:
        return text
    # Jackson has capitals in \u001F. An escaped backslash starts no such escape.
    return _ESCAPE.sub(lambda match: match[0][:2] + match[0][2:].upper(), text)


def _refuse(constant: str) -> Any:
    raise InvalidSchema(f"not JSON: {constant} is not a number in JSON")


def _finite(text: str) -> float:
    value = float(text)
    if isinf(value):
        raise InvalidSchema(f"{text} is not a double")
    return value
