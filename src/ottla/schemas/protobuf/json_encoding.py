"""Protobuf's JSON mapping: converts between messages and JSON."""

from __future__ import annotations

from typing import Any, Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError, EncodeError

from ottla.schemas import json_text

_OWN_FORM: Final = "google.protobuf."  # Timestamp, Struct, ...: their JSON differs


class ProtobufDataError(ValueError):
    """Data that does not fit its message."""


def json_text_of(message_class: Any, data: bytes, *, proto_names: bool = False) -> str:
    """Unset fields are included, as in the output of Confluent's tools."""
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
    return json_text.write_json(_ordered(message.DESCRIPTOR, value))


def binary_of(message_class: Any, text: str) -> bytes:
    message = message_class()
    try:
        json_format.Parse(text, message)
        data: bytes = message.SerializeToString()
    except (json_format.Error, EncodeError) as error:
        raise ProtobufDataError(str(error)) from None
    return data


def _ordered(descriptor: Any, value: Any) -> Any:
    """Fields in the order of their numbers: Python writes unset ones last."""
    if not isinstance(value, dict) or descriptor.full_name.startswith(_OWN_FORM):
        return value
    found = {}
    for field in sorted(descriptor.fields, key=lambda field: field.number):
        for name in (field.json_name, field.name):
            if name in value and name not in found:
                found[name] = _ordered_field(field, value[name])
    return found | {name: entry for name, entry in value.items() if name not in found}


def _ordered_field(field: Any, value: Any) -> Any:
    kind = field.message_type
    if kind is None:
        return value
    if kind.GetOptions().map_entry:
        inner = kind.fields_by_name["value"].message_type
        return {key: _ordered(inner, entry) for key, entry in value.items()} if inner else value
    if isinstance(value, list):
        return [_ordered(kind, item) for item in value]
    return _ordered(kind, value)
