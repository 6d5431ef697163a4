"""Converts Protobuf messages to plain values, and back.

A message is a dict with all its fields under their names in the .proto file; an unset field with
presence is None. An enum is its constant's name, or an unknown number. Of Google's own types,
Timestamp is a datetime in UTC, Duration a timedelta, a wrapper its value, and Struct, Value and
ListValue are plain dicts, values and lists.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any

ReadValue = Callable[[Any], Any]
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)


class MessageValues:
    """Converts messages of one class to dicts, and dicts to messages. Built once for a class."""

    def __init__(self, message_class: Any) -> None:
        self.message_class = message_class
        self._readers: dict[str, list[Any]] = {}
        self._wrapped: dict[str, list[tuple[str, Callable[[Any], Any]]]] = {}
        self._read_message = self._reader(message_class.DESCRIPTOR)
        self._fields = self._wrapped_fields(message_class.DESCRIPTOR)

    def to_dict(self, message: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._read_message(message)
        return found

    def from_dict(self, value: Any) -> Any:
        """Unknown names and values that do not fit are errors."""
        if self._fields:
            value = _with_wrappers(value, self._fields)
        return self.message_class(**value)

    # To dicts

    def _reader(self, descriptor: Any) -> ReadValue:
        special = _SPECIAL.get(descriptor.full_name)
        if special is not None:
            return special
        if descriptor.full_name in _WRAPPERS:
            return _value_of
        plan = self._readers.get(descriptor.full_name)
        if plan is None:
            plan = self._readers[descriptor.full_name] = []  # a message may contain itself
            for field in descriptor.fields:
                plan.append((field.name, field.has_presence, self._field_reader(field)))

        def read(message: Any) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for name, has_presence, convert in plan:
                if has_presence and not message.HasField(name):
                    found[name] = None
                else:
                    value = getattr(message, name)
                    found[name] = value if convert is None else convert(value)
            return found

        return read

    def _field_reader(self, field: Any) -> ReadValue | None:
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            of_value = self._single_reader(field.message_type.fields_by_name["value"])
            if of_value is None:
                return dict
            return lambda entries: {key: of_value(entries[key]) for key in entries}
        single = self._single_reader(field)
        if not field.is_repeated:
            return single
        if single is None:
            return list
        return lambda entries: [single(entry) for entry in entries]

    def _single_reader(self, field: Any) -> ReadValue | None:
        if field.message_type is not None:
            return self._reader(field.message_type)
        if field.enum_type is not None:
            names = {number: item.name for number, item in field.enum_type.values_by_number.items()}
            return lambda number: names.get(number, number)
        return None

    # From dicts: protobuf's constructors take nested dicts, but no bare values for wrappers.

    def _wrapped_fields(self, descriptor: Any) -> list[tuple[str, Callable[[Any], Any]]]:
        fields = self._wrapped.get(descriptor.full_name)
        if fields is not None:
            return fields
        fields = self._wrapped[descriptor.full_name] = []
        for field in descriptor.fields:
            convert = self._field_writer(field)
            if convert is not None:
                fields.append((field.name, convert))
        return fields

    def _field_writer(self, field: Any) -> Callable[[Any], Any] | None:
        if field.message_type is None:
            return None
        if field.message_type.GetOptions().map_entry:
            of_value = field.message_type.fields_by_name["value"]
            convert = _IN_MAPS.get(of_value.message_type and of_value.message_type.full_name)
            convert = convert or self._field_writer(of_value)
            if convert is None:
                return None
            return lambda entries: {key: convert(value) for key, value in entries.items()}
        single = self._single_writer(field.message_type)
        if single is None or not field.is_repeated:
            return single
        return lambda entries: [single(entry) for entry in entries]

    def _single_writer(self, descriptor: Any) -> Callable[[Any], Any] | None:
        if descriptor.full_name in _WRAPPERS:
            return lambda value: value if hasattr(value, "DESCRIPTOR") else {"value": value}
        if descriptor.full_name in _SPECIAL:
            return _written_value if descriptor.full_name == "google.protobuf.Value" else None
        known = descriptor.full_name in self._wrapped
        fields = self._wrapped_fields(descriptor)
        if not fields and not known:
            return None
        return lambda value: _with_wrappers(value, fields) if isinstance(value, dict) else value


def _with_wrappers(value: Any, fields: list[tuple[str, Callable[[Any], Any]]]) -> dict[str, Any]:
    changed = dict(value)
    for name, convert in fields:
        part = changed.get(name)
        if part is not None:
            changed[name] = convert(part)
    return changed


def _by_parts(make: Callable[[Any], dict[str, Any]]) -> Callable[[Any], Any]:
    return lambda value: value if hasattr(value, "DESCRIPTOR") else make(value)


def _timestamp_parts(value: datetime.datetime) -> dict[str, Any]:
    """A time without a zone is UTC, as in protobuf itself."""
    at = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
    return _duration_parts(at - datetime.datetime.fromtimestamp(0, datetime.UTC), floor=True)


def _duration_parts(value: datetime.timedelta, *, floor: bool = False) -> dict[str, Any]:
    """Both parts of a duration have the same sign."""
    micros = value // datetime.timedelta(microseconds=1)
    seconds, rest = divmod(micros, 1_000_000)
    if not floor and seconds < 0 and rest:
        seconds, rest = seconds + 1, rest - 1_000_000
    return {"seconds": seconds, "nanos": rest * 1000}


def _written_value(value: Any) -> Any:
    """What protobuf's constructor accepts for a Value; it accepts more for Struct and ListValue."""
    if isinstance(value, bool):
        return {"bool_value": value}
    if isinstance(value, int | float):
        return {"number_value": value}
    if isinstance(value, str):
        return {"string_value": value}
    if isinstance(value, dict):
        return {"struct_value": value}
    if isinstance(value, list | tuple):
        return {"list_value": list(value)}
    return {"null_value": 0} if value is None else value


def _value_of(wrapper: Any) -> Any:
    return wrapper.value


def _datetime(message: Any) -> datetime.datetime:
    found: datetime.datetime = message.ToDatetime(tzinfo=datetime.UTC)
    return found


def _timedelta(message: Any) -> datetime.timedelta:
    found: datetime.timedelta = message.ToTimedelta()
    return found


def _struct(message: Any) -> dict[str, Any]:
    return {key: _any_value(message.fields[key]) for key in message.fields}


def _any_value(message: Any) -> Any:
    kind = message.WhichOneof("kind")
    if kind in (None, "null_value"):
        return None
    if kind == "struct_value":
        return _struct(message.struct_value)
    if kind == "list_value":
        return _list(message.list_value)
    return getattr(message, kind)


def _list(message: Any) -> list[Any]:
    return [_any_value(item) for item in message.values]


_SPECIAL: dict[str, ReadValue] = {
    "google.protobuf.Timestamp": _datetime,
    "google.protobuf.Duration": _timedelta,
    "google.protobuf.Struct": _struct,
    "google.protobuf.Value": _any_value,
    "google.protobuf.ListValue": _list,
}

# Protobuf's constructors accept a datetime for a field, but not for a value of a map.
_IN_MAPS: dict[str | None, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _by_parts(_timestamp_parts),
    "google.protobuf.Duration": _by_parts(_duration_parts),
    "google.protobuf.Struct": _by_parts(
        lambda value: {"fields": {key: _written_value(part) for key, part in value.items()}}
    ),
    "google.protobuf.ListValue": _by_parts(
        lambda value: {"values": [_written_value(part) for part in value]}
    ),
}
