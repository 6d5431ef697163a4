"""Protobuf's JSON mapping: between messages and JSON, by the schema alone."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError, EncodeError

from ottla.schemas import json_text
from ottla.schemas.protobuf.descriptor_writing import descriptor_of
from ottla.schemas.protobuf.known_types import KNOWN_FILES
from ottla.schemas.protobuf.schema import ProtobufSchema

FILE: Final = "default.proto"
FIRST: Final = (0,)
_OWN_FORM: Final = "google.protobuf."  # Timestamp, Struct, ...: their JSON is not their fields


class ProtobufDataError(ValueError):
    """Data that does not fit its message."""


class ProtobufMessages:
    """The messages of one file. `references` has the texts of its imports, in their order."""

    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        for name, content in {**references, FILE: text}.items():
            schema = ProtobufSchema(
                content, references if name == FILE else _before(name, references)
            )
            for _, imported in schema.file.imports:
                if imported in KNOWN_FILES and imported not in references:
                    self._add_known(imported)
            self._pool.Add(descriptor_of(schema, name))
        self._file = self._pool.FindFileByName(FILE)

    def indexes_of(self, name: str) -> tuple[int, ...]:
        """Where a message stands in the file, by its full name."""
        found = _find(name, self._file.message_types_by_name.values())
        if found is None:
            known = ", ".join(each.full_name for each in self._file.message_types_by_name.values())
            raise ProtobufDataError(f"the schema has no message {name}; it has {known}")
        return found

    def name_of(self, indexes: Sequence[int]) -> str:
        name: str = self._message(indexes).DESCRIPTOR.full_name
        return name

    def json_text_of(self, indexes: Sequence[int], data: bytes, *, proto_names: bool) -> str:
        message = self._message(indexes)
        try:
            message.ParseFromString(data)
            value = json_format.MessageToDict(
                message,
                always_print_fields_with_no_presence=True,
                preserving_proto_field_name=proto_names,
                descriptor_pool=self._pool,
            )
        except (DecodeError, json_format.Error, UnicodeDecodeError) as error:
            raise ProtobufDataError(f"no {message.DESCRIPTOR.full_name}: {error}") from None
        return json_text.write(_ordered(message.DESCRIPTOR, value))

    def binary_of(self, indexes: Sequence[int], text: str) -> bytes:
        message = self._message(indexes)
        try:
            json_format.Parse(text, message, descriptor_pool=self._pool)
            data: bytes = message.SerializeToString()
        except (json_format.Error, EncodeError) as error:
            raise ProtobufDataError(str(error)) from None
        return data

    def _message(self, indexes: Sequence[int]) -> Any:
        found, inner = None, list(self._file.message_types_by_name.values())
        for index in indexes:
            if index >= len(inner):
                raise ProtobufDataError(f"the schema has no message with the indexes {indexes}")
            found = inner[index]
            inner = list(found.nested_types)
        assert found is not None, "there is at least one index"
        return message_factory.GetMessageClass(found)()

    def _add_known(self, name: str) -> None:
        if name in self._added:
            return
        self._added.add(name)
        module = f"{name.removesuffix('.proto').replace('/', '.')}_pb2"
        try:
            known = importlib.import_module(module).DESCRIPTOR
        except ImportError:
            raise ProtobufDataError(
                f'import "{name}": there is no Python module {module} on this machine'
            ) from None
        for needed in known.dependencies:
            self._add_known(needed.name)
        written = descriptor_pb2.FileDescriptorProto()
        known.CopyToProto(written)
        self._pool.Add(written)


def _before(name: str, references: Mapping[str, str]) -> dict[str, str]:
    """Those that a reference may import: they stand before it."""
    found: dict[str, str] = {}
    for each, text in references.items():
        if each == name:
            break
        found[each] = text
    return found


def _find(name: str, messages: Iterable[Any]) -> tuple[int, ...] | None:
    for index, message in enumerate(messages):
        if message.full_name == name:
            return (index,)
        if inner := _find(name, message.nested_types):
            return (index, *inner)
    return None


def _ordered(descriptor: Any, value: Any) -> Any:
    """Fields in the order of the schema: Python writes those with defaults behind the others."""
    if not isinstance(value, dict) or descriptor.full_name.startswith(_OWN_FORM):
        return value
    found = {}
    for field in sorted(descriptor.fields, key=lambda each: each.number):
        for name in (field.json_name, field.name):
            if name in value and name not in found:
                found[name] = _ordered_field(field, value[name])
    return found | value if len(found) < len(value) else found


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
