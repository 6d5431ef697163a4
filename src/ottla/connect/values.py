"""Values <-> text, as headers are written and read by SimpleHeaderConverter.

    true  12  1.5  2026-11-16  2026-11-16T08:00:00.000Z  [1,2]  {"a":1}   or any other string

Parsing chooses the smallest type that holds the value. The rules are Kafka's, with their oddities:
a number with a fraction is a FLOAT32, and text after a number or a closing bracket is ignored.
"""

from __future__ import annotations

import base64
import datetime
import re
from decimal import Decimal
from typing import Any, Final

from ottla.connect.data import (
    BOOLEAN_SCHEMA,
    FLOAT32_SCHEMA,
    FLOAT64_SCHEMA,
    INT8_SCHEMA,
    INT16_SCHEMA,
    INT32_SCHEMA,
    INT64_SCHEMA,
    STRING_SCHEMA,
    Schema,
    Struct,
    Type,
    array_schema,
    date_schema,
    decimal_schema,
    map_schema,
    time_schema,
    timestamp_schema,
)
from ottla.connect.errors import DataException
from ottla.connect.logical_types import DAY_MS, from_millis, to_days, to_millis, to_time_millis
from ottla.rows.java.date_format import DateFormat
from ottla.rows.java.text import float32, java_text

Parsed = tuple[Schema | None, Any]

DATE_FORMAT: Final = DateFormat("yyyy-MM-dd")
TIME_FORMAT: Final = DateFormat("HH:mm:ss.SSS'Z'")
TIMESTAMP_FORMAT: Final = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")
TOKEN: Final = re.compile(r'[:,{}\[\]"]|(?:\\.|[^:,{}\[\]"\\])+|\\$', re.DOTALL)
NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
INTEGERS: Final = ((8, INT8_SCHEMA), (16, INT16_SCHEMA), (32, INT32_SCHEMA), (64, INT64_SCHEMA))
WIDTHS: Final = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)


def text_of(value: Any) -> str | None:
    """Kafka's Values.convertToString: strings unquoted, except inside lists and maps."""
    return None if value is None else _text(value, embedded=False)


def _text(value: Any, embedded: bool = True) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return _quoted(value) if embedded else value
    if isinstance(value, bytes | bytearray | memoryview):
        encoded = base64.b64encode(value).decode()
        return f'"{encoded}"' if embedded else encoded
    if isinstance(value, list | tuple):
        return "[" + ",".join(_text(item) for item in value) + "]"
    if isinstance(value, dict | Struct):
        pairs = (f"{_text(key)}:{_text(item)}" for key, item in value.items())
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, datetime.date | datetime.time):
        return date_text(value)
    if isinstance(value, bool | int | float | Decimal):
        return java_text(value)
    raise DataException(
        f"Failed to serialize unexpected value type {type(value).__name__}: {value}"
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def date_text(value: datetime.date | datetime.time) -> str:
    """In the format of Time, Date or Timestamp, whichever Kafka would choose for the value."""
    if isinstance(value, datetime.time):
        millis = to_time_millis(value)
    elif isinstance(value, datetime.datetime):
        millis = to_millis(value)
    else:
        millis = to_days(value) * DAY_MS
    if millis < DAY_MS:
        return TIME_FORMAT.format(from_millis(millis))
    if millis % DAY_MS == 0:
        return DATE_FORMAT.format(from_millis(millis))
    return TIMESTAMP_FORMAT.format(from_millis(millis))


def parse_string(text: str | None) -> Parsed:
    """Kafka's Values.parseString: the value, with the schema that its text implies."""
    if text is None:
        return None, None
    if not text:
        return STRING_SCHEMA, text
    return _ValueParser(text).value(embedded=False)


class _ValueParser:
    """A recursive descent parser over the tokens, with backtracking."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = TOKEN.findall(text)
        self._at = 0

    def value(self, embedded: bool = True) -> Parsed:
        if embedded and self._take('"'):
            return self._quoted()
        for word, parsed in LITERALS.items():
            if self._literal(word, embedded):
                return parsed
        start = self._at
        try:
            if self._take("["):
                return self._array()
            if self._take("{"):
                return self._map()
        except DataException:
            self._at = start
        if self._at >= len(self._tokens):
            return None, None
        token = self._next()
        if not token.strip():
            return STRING_SCHEMA, token
        return self._scalar(token.strip(), embedded)

    def _next(self) -> str:
        self._at += 1
        return str(self._tokens[self._at - 1])

    def _take(self, expected: str) -> bool:
        """Skip white space; then consume the next token if it is this one."""
        while self._at < len(self._tokens) - 1 and not self._tokens[self._at].strip():
            self._at += 1
        if self._at < len(self._tokens) and self._tokens[self._at].strip() == expected:
            self._at += 1
            return True
        return False

    def _literal(self, word: str, embedded: bool) -> bool:
        start = self._at
        if self._take(word):
            if embedded or self._at >= len(self._tokens):
                return True
            self._at = start
        return False

    def _quoted(self) -> Parsed:
        parts = []
        while self._at < len(self._tokens) and not self._take('"'):
            parts.append(self._next())
        content = "".join(parts)
        return _temporal(content) or (STRING_SCHEMA, content)

    def _scalar(self, token: str, embedded: bool) -> Parsed:
        if token[0].isdigit():
            temporal = self._temporal_tokens(token)
            if temporal is not None:
                return temporal
        if (token[0].isdigit() or token[0] in "+-") and NUMBER.fullmatch(token):
            return _number(Decimal(token))
        if embedded:
            raise DataException("Failed to parse embedded value")
        return STRING_SCHEMA, self._text

    def _temporal_tokens(self, token: str) -> Parsed | None:
        """Times contain colons, which are tokens too: a time may span five tokens."""
        rest = self._tokens[self._at : self._at + 4]
        if len(rest) == 4:
            temporal = _temporal(token + "".join(rest))
            if temporal is not None:
                self._at += 4
                return temporal
        return _temporal(token)

    def _array(self) -> Parsed:
        schemas: list[Schema | None] = []
        values: list[Any] = []
        while self._at < len(self._tokens):
            if self._take("]"):
                common = _common(schemas)
                if common is None:
                    return array_schema(STRING_SCHEMA.as_optional()), values
                return array_schema(common), [_converted(common, value) for value in values]
            if self._take(","):
                raise DataException(f"Unable to parse an empty array element: {self._text}")
            schema, value = self.value()
            schemas.append(schema)
            values.append(value)
            start = self._at
            if self._take("]"):
                self._at = start
            elif not self._take(","):
                raise DataException("Array elements missing ',' delimiter")
        raise DataException(f"Array is missing terminating ']': {self._text}")

    def _map(self) -> Parsed:
        pairs: dict[Any, Any] = {}
        keys: list[Schema | None] = []
        values: list[Schema | None] = []
        while self._at < len(self._tokens):
            if self._take("}"):
                return _map_of(pairs, _common(keys), _common(values))
            if self._take(","):
                raise DataException(
                    f"Unable to parse a map entry with no key or value: {self._text}"
                )
            key_schema, key = self.value()
            if key is None or isinstance(key, list | dict):
                raise DataException(f"Map entry may not have a null key: {self._text}")
            if not self._take(":"):
                raise DataException(f"Map entry is missing ':' in {self._text}")
            value_schema, pairs[key] = self.value()
            self._take(",")
            keys.append(key_schema)
            values.append(value_schema)
        raise DataException(f"Map is missing terminating '}}': {self._text}")


LITERALS: Final[dict[str, Parsed]] = {
    "null": (None, None),
    "true": (BOOLEAN_SCHEMA, True),
    "false": (BOOLEAN_SCHEMA, False),
}


def _map_of(pairs: dict[Any, Any], keys: Schema | None, values: Schema | None) -> Parsed:
    nothing = STRING_SCHEMA.as_optional()
    if keys is None:
        return map_schema(nothing, nothing), pairs
    if values is None:
        schema = map_schema(keys, nothing)
        return schema, {_converted(keys, key): value for key, value in pairs.items()}
    schema = map_schema(keys, values)
    return schema, {_converted(keys, k): _converted(values, v) for k, v in pairs.items()}


def _number(number: Decimal) -> Parsed:
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int), "the pattern lets no NaN through"
    if abs(number) >= 1 or number == 0:
        whole = int(number) if number.adjusted() < 20 else None
        if whole is not None and whole == number:
            for bits, schema in INTEGERS:
                if -(1 << bits - 1) <= whole < 1 << bits - 1:
                    return schema, whole
    if exponent != 0:
        single, double = float32(float(number)), float(number)
        if abs(single) != float("inf"):
            return FLOAT32_SCHEMA, single
        if abs(double) != float("inf"):
            return FLOAT64_SCHEMA, double
    return decimal_schema(-exponent), number


def _temporal(text: str) -> Parsed | None:
    text = text.replace("\\:", ":")
    try:
        if len(text) == 13:
            return time_schema(), TIME_FORMAT.parse(text).time()
        if len(text) == 24:
            return timestamp_schema(), TIMESTAMP_FORMAT.parse(text)
        if len(text) == 10:
            return date_schema(), DATE_FORMAT.parse(text).date()
    except (ValueError, OverflowError):
        return None
    return None


def _common(schemas: list[Schema | None]) -> Schema | None:
    """The schema that all of them can be converted to; None if there is none, or all are null."""
    common: Schema | None = None
    for schema in schemas:
        if schema is None:
            continue
        common = schema if common is None else _merged(common, schema)
        if common is None:
            return None
    return common


def _merged(one: Schema, other: Schema) -> Schema | None:
    if one.type is not other.type:
        if one.type not in WIDTHS or other.type not in WIDTHS:
            return None
        return max(one, other, key=lambda schema: WIDTHS.index(schema.type))
    if one.optional == other.optional:
        return one if one.optional else other
    return one if one == other else None


def _converted(schema: Schema, value: Any) -> Any:
    """The value, converted to the common schema of its list or map."""
    if value is None:
        if schema.optional:
            return None
        raise DataException("Unable to convert a null value to a schema that requires a value")
    if schema.type is Type.STRING and not isinstance(value, str):
        return text_of(value)
    if schema.type in (Type.FLOAT32, Type.FLOAT64) and isinstance(value, int):
        return float(value)
    return value
