"""Messages <-> row values, by functions that are built once per message type and columns.

Fields match columns by name regardless of case; an exact match wins. An unset field with presence
(`optional`, a wrapper, a message) is null.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from ottla.rows.formats import scalars
from ottla.rows.formats.avro.payload_reader import TypeMismatchError
from ottla.rows.formats.protobuf.types import is_map, is_wrapper
from ottla.rows.types import SqlBaseType, SqlField, SqlType

ValueReader = Callable[[Any], Any]
"""Reads a column's value from a message."""
ValueWriter = Callable[[Any, Any], None]
"""Writes a non-null value to a message."""

US_IN_NS: Final = 1000

_INT = FieldDescriptor.CPPTYPE_INT32
_NUMBERS: Final = frozenset(
    {
        FieldDescriptor.CPPTYPE_INT64,
        FieldDescriptor.CPPTYPE_UINT32,
        FieldDescriptor.CPPTYPE_UINT64,
    }
)
_FLOATS: Final = frozenset({FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE})


def matched(message: Any, fields: Sequence[SqlField]) -> list[Any]:
    """The message's field for each column; None where it has none."""
    folded: dict[str, Any] = {}
    for field in message.fields:
        folded.setdefault(field.name.upper(), field)
    return [
        message.fields_by_name.get(field.name) or folded.get(field.name.upper()) for field in fields
    ]


# Reading messages


def value_readers(message: Any, fields: Sequence[SqlField], path: str = "") -> list[ValueReader]:
    """One for each column."""
    return [
        _nothing if found is None else _taker(found, column.type, f"{path}{column.name}")
        for found, column in zip(matched(message, fields), fields, strict=True)
    ]


def _nothing(message: Any) -> None:
    return None


def _taker(field: Any, type_: SqlType, path: str) -> ValueReader:
    name = field.name
    if field.is_repeated:
        return _repeated_taker(field, type_, path)
    convert = _converter(field, type_, path)
    if not field.has_presence:
        return lambda message: convert(getattr(message, name))
    return lambda message: convert(getattr(message, name)) if message.HasField(name) else None


def _repeated_taker(field: Any, type_: SqlType, path: str) -> ValueReader:
    name = field.name
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        convert = _converter(field, type_.element, f"{path}[]")
        return lambda message: [convert(item) for item in getattr(message, name)]
    if type_.kind is not SqlBaseType.MAP or not is_map(field.message_type):
        raise _mismatch(field, type_, path)
    assert type_.element is not None
    value = field.message_type.fields_by_name["value"]
    if field.message_type.GetOptions().map_entry:
        convert = _converter(value, type_.element, f"{path}{{}}")
        return lambda message: {
            _key_text(key): convert(item) for key, item in getattr(message, name).items()
        }
    take = _taker(value, type_.element, f"{path}{{}}")
    return lambda message: {_key_text(item.key): take(item) for item in getattr(message, name)}


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _converter(field: Any, type_: SqlType, path: str) -> Callable[[Any], Any]:
    if field.message_type is not None:
        return _message_converter(field, type_, path)
    if field.enum_type is not None and type_.kind is SqlBaseType.STRING:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    kind, cpp = type_.kind, field.cpp_type
    if kind is SqlBaseType.INTEGER and cpp == _INT:
        return int
    if kind is SqlBaseType.BIGINT and (cpp == _INT or cpp in _NUMBERS):
        return scalars.bigint_scalar
    if kind is SqlBaseType.DOUBLE and (cpp == _INT or cpp in _NUMBERS or cpp in _FLOATS):
        return float
    if kind is SqlBaseType.BOOLEAN and cpp == field.CPPTYPE_BOOL:
        return bool
    if kind is SqlBaseType.BYTES and field.type == field.TYPE_BYTES:
        return bytes
    if kind is SqlBaseType.STRING and field.type != field.TYPE_BYTES and field.enum_type is None:
        return _key_text
    raise _mismatch(field, type_, path)


def _message_converter(field: Any, type_: SqlType, path: str) -> Callable[[Any], Any]:
    message = field.message_type
    if is_wrapper(message):
        return _taker(message.fields_by_name["value"], type_, path)
    known = _KNOWN_TAKERS.get((message.full_name, type_.kind))
    if known is not None:
        return known
    if message.full_name == "confluent.type.Decimal" and type_.kind is SqlBaseType.DECIMAL:
        return lambda value: scalars.decimal_scalar(_decimal(value), type_.precision, type_.scale)
    if type_.kind is not SqlBaseType.STRUCT:
        raise _mismatch(field, type_, path)
    inner = value_readers(message, type_.fields, f"{path}.")
    names = [column.name for column in type_.fields]
    return lambda value: {name: take(value) for name, take in zip(names, inner, strict=True)}


def _mismatch(field: Any, type_: SqlType, path: str) -> TypeMismatchError:
    name = field.message_type.full_name if field.message_type else f"field {field.full_name}"
    repeated = "repeated " if field.is_repeated else ""
    return TypeMismatchError(f"{path} is {repeated}{name} in its schema, and can't be {type_}")


def _decimal(message: Any) -> Decimal:
    unscaled = int.from_bytes(message.value, "big", signed=True)
    return Decimal(unscaled).scaleb(-message.scale)


def _timestamp(message: Any) -> dt.datetime:
    return scalars.timestamp_of(message.seconds * 1000 + message.nanos // 1_000_000)


def _date(message: Any) -> dt.date:
    return dt.date(message.year, message.month, message.day)


def _time(message: Any) -> dt.time:
    return dt.time(message.hours, message.minutes, message.seconds, message.nanos // US_IN_NS)


_KNOWN_TAKERS: Final[dict[tuple[str, SqlBaseType], Callable[[Any], Any]]] = {
    ("google.protobuf.Timestamp", SqlBaseType.TIMESTAMP): _timestamp,
    ("google.type.Date", SqlBaseType.DATE): _date,
    ("google.type.TimeOfDay", SqlBaseType.TIME): _time,
}


# Writing messages


def value_writers(message: Any, fields: Sequence[SqlField], path: str = "") -> list[ValueWriter]:
    """One for each column; a column without a field is an error."""
    found = matched(message, fields)
    lost = [column.name for column, field in zip(fields, found, strict=True) if field is None]
    if lost:
        raise TypeMismatchError(f"{message.full_name} has no field {', '.join(lost)}")
    return [
        _putter(field, column.type, f"{path}{column.name}")
        for field, column in zip(found, fields, strict=True)
    ]


def _putter(field: Any, type_: SqlType, path: str) -> ValueWriter:
    name = field.name
    if field.is_repeated:
        return _repeated_putter(field, type_, path)
    if field.message_type is not None:
        fill = _filler(field, type_, path)
        return lambda message, value: fill(getattr(message, name), value)
    _check_scalar(field, type_, path)
    if field.enum_type is not None:
        numbers = field.enum_type.values_by_name
        return lambda message, value: setattr(message, name, numbers[value].number)
    return lambda message, value: setattr(message, name, value)


def _repeated_putter(field: Any, type_: SqlType, path: str) -> ValueWriter:
    name = field.name
    if type_.kind is SqlBaseType.MAP and is_map(field.message_type):
        return _map_putter(field, type_, path)
    if type_.kind is not SqlBaseType.ARRAY:
        raise _mismatch(field, type_, path)
    assert type_.element is not None
    if field.message_type is None:
        _check_scalar(field, type_.element, path)
        return lambda message, values: getattr(message, name).extend(_all(values, path))
    fill = _filler(field, type_.element, path)

    def put(message: Any, values: Any) -> None:
        for value in _all(values, path):
            fill(getattr(message, name).add(), value)

    return put


def _map_putter(field: Any, type_: SqlType, path: str) -> ValueWriter:
    assert type_.element is not None
    name = field.name
    value_field = field.message_type.fields_by_name["value"]
    if not field.message_type.GetOptions().map_entry:
        put_value = _putter(value_field, type_.element, path)

        def put(message: Any, values: Any) -> None:
            for key, value in values.items():
                entry = getattr(message, name).add(key=key)
                if value is not None:
                    put_value(entry, value)

        return put
    if value_field.message_type is None:
        return lambda message, values: getattr(message, name).update(values)
    fill = _filler(value_field, type_.element, path)

    def put_messages(message: Any, values: Any) -> None:
        for key, value in values.items():
            fill(getattr(message, name)[key], value)

    return put_messages


def _all(values: Sequence[Any], path: str) -> Sequence[Any]:
    if None in values:
        raise ValueError(f"{path}: a repeated Protobuf field can't have null")
    return values


def _filler(field: Any, type_: SqlType, path: str) -> ValueWriter:
    """Fills an existing message."""
    message = field.message_type
    if is_wrapper(message):
        put = _putter(message.fields_by_name["value"], type_, path)

        def wrap(into: Any, value: Any) -> None:
            into.SetInParent()
            put(into, value)

        return wrap
    if message.full_name == "confluent.type.Decimal" and type_.kind is SqlBaseType.DECIMAL:
        return lambda into, value: _put_decimal(into, value, type_)
    known = _KNOWN_PUTTERS.get((message.full_name, type_.kind))
    if known is not None:
        return known
    if type_.kind is not SqlBaseType.STRUCT:
        raise _mismatch(field, type_, path)
    puts = value_writers(message, type_.fields, f"{path}.")
    names = [column.name for column in type_.fields]

    def fill(into: Any, value: Any) -> None:
        into.SetInParent()
        for name, put_field in zip(names, puts, strict=True):
            if value[name] is not None:
                put_field(into, value[name])

    return fill


def _check_scalar(field: Any, type_: SqlType, path: str) -> None:
    """A type that can be read can also be written, unless reading widens it."""
    _converter(field, type_, path)
    wide = type_.kind is SqlBaseType.STRING and field.cpp_type != field.CPPTYPE_STRING
    if (wide and field.enum_type is None) or (
        type_.kind is SqlBaseType.DOUBLE and field.cpp_type not in _FLOATS
    ):
        raise _mismatch(field, type_, path)


def _put_decimal(message: Any, value: Decimal, type_: SqlType) -> None:
    unscaled = int(value.scaleb(type_.scale))
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    message.value = unscaled.to_bytes(size, "big", signed=True)
    message.precision = type_.precision
    message.scale = type_.scale


def _put_timestamp(message: Any, value: dt.datetime) -> None:
    milliseconds = scalars.epoch_ms_of(value)
    message.SetInParent()
    message.seconds, rest = divmod(milliseconds, 1000)
    message.nanos = rest * 1_000_000


def _put_date(message: Any, value: dt.date) -> None:
    message.year, message.month, message.day = value.year, value.month, value.day


def _put_time(message: Any, value: dt.time) -> None:
    message.SetInParent()
    message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
    message.nanos = value.microsecond * US_IN_NS


_KNOWN_PUTTERS: Final[dict[tuple[str, SqlBaseType], ValueWriter]] = {
    ("google.protobuf.Timestamp", SqlBaseType.TIMESTAMP): _put_timestamp,
    ("google.type.Date", SqlBaseType.DATE): _put_date,
    ("google.type.TimeOfDay", SqlBaseType.TIME): _put_time,
}
