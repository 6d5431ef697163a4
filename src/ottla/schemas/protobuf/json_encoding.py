"""Protobuf's JSON mapping: between messages and JSON."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError

from ottla.schemas import json_text

_OWN_FORM: Final = "google.protobuf."  # Timestamp, Struct, ...: their JSON is not their fields


class ProtobufDataError(ValueError):
    """Data that does not fit its message."""


def json_text_of(message_class: Any, data: bytes, *, proto_names: bool = False) -> str:
    """Fields that are not set are there, too, as Confluent's tools print them."""
    message = message_class()
    try:
        message.ParseFromString(data)
        value = json_format.MessageToDict(
            message,
            always_print_fields_with_no_presence=True,
            preserving_proto_field_name=proto_names,
        )
    except (DecodeError, json_format.Error, UnicodeDecodeError) as error:
        raise ProtobufDataError(f"no {message.DESCRIPTOR.full_name}: {error}") from None
    return json_text.write(_ordered(message.DESCRIPTOR, value))


def binary_of(message_class: Any, text: str) -> bytes:
    message = message_class()
    try:
        json_format.Parse(text, message)
        data: bytes = message.SerializeToString()
    except (json_format.Error, EncodeError) as error:
        raise ProtobufDataError(str(error)) from None
    return data


def _ordered(descriptor: Any, value: Any) -> Any:
    """Fields in the order of their numbers: Python writes those that are not set last."""
    if not isinstance(value, dict) or descriptor.full_name.startswith(_OWN_FORM):
        return value
    found = {}
    for field in sorted(descriptor.fields, key=lambda each: each.number):
        for name in (field.json_name, field.name):
            if name in value and name not in found:
                found[name] = _ordered_field(field, value[name])
    return found | {name: each for name, each in value.items() if name not in found}


def _ordered_field(field: Any, value: Any) -> Any:
    kind = field.message_type
    if kind is None:
        return value
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"].message_type
        return {key: _ordered(inner, each) for key, each in value.items()} if inner else value
    if isinstance(value, list):
        return [_ordered(kind, each) for each in value]
    return _ordered(kind, value)
