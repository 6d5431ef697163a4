"""Writes a file as a FileDescriptorProto in base64, for `format=serialized`."""

from __future__ import annotations

import base64
from typing import Any

from google.protobuf import descriptor_pb2

from ottla.schemas.protobuf.json_name import json_name
from ottla.schemas.protobuf.proto_file import (
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoOption,
)
from ottla.schemas.protobuf.schema import SCALARS, ProtobufSchema

_FIELD = descriptor_pb2.FieldDescriptorProto
_LABELS = {
    "": _FIELD.LABEL_OPTIONAL,
    "optional": _FIELD.LABEL_OPTIONAL,
    "required": _FIELD.LABEL_REQUIRED,
    "repeated": _FIELD.LABEL_REPEATED,
}


def serialized(schema: ProtobufSchema, name: str = "default") -> str:
    return base64.b64encode(descriptor_of(schema, name).SerializeToString()).decode()


def descriptor_of(schema: ProtobufSchema, name: str) -> Any:
    return _DescriptorWriter(schema, schema.file).write(name)


def referenced_descriptors(schema: ProtobufSchema) -> dict[str, Any]:
    """The descriptors of all referenced files by name, in dependency order."""
    return {
        name: _DescriptorWriter(schema, file).write(name)
        for name, file in schema.references.items()
    }


class _DescriptorWriter:
    def __init__(self, schema: ProtobufSchema, file: ProtoFile) -> None:
        self.schema = schema
        self.file = file
        self.is_proto3 = file.syntax == "proto3"

    def write(self, name: str) -> Any:
        source = self.file
        file = descriptor_pb2.FileDescriptorProto(name=name)
        if source.package:
            file.package = source.package
        if self.is_proto3:
            file.syntax = "proto3"
        for position, (kind, path) in enumerate(source.imports):
            file.dependency.append(path)
            if kind == "public":
                file.public_dependency.append(position)
        _set_options(file, source.options)
        for item in source.types:
            if isinstance(item, ProtoEnum):
                self.enum(file.enum_type.add(), item)
            else:
                self.message(file.message_type.add(), item, source.package)
        self.extends(file.extension, file.message_type, source.extends, source.package)
        for service in source.services:
            written = file.service.add(name=service.name)
            _set_options(written, service.options)
            for method in service.methods:
                added = written.method.add(
                    name=method.name,
                    input_type=self.type_name(method.request, source.package),
                    output_type=self.type_name(method.response, source.package),
                )
                if method.request_stream:
                    added.client_streaming = True
                if method.response_stream:
                    added.server_streaming = True
                _set_options(added, method.options)
        return file

    def message(self, written: Any, message: ProtoMessage, scope: str) -> None:
        written.name = message.name
        scope = f"{scope}.{message.name}" if scope else message.name
        _set_options(written, message.options)
        for item in message.types:
            if isinstance(item, ProtoEnum):
                self.enum(written.enum_type.add(), item)
            else:
                self.message(written.nested_type.add(), item, scope)
        self.fields(written, message, scope)
        self.extends(written.extension, written.nested_type, message.extends, scope)
        for part in (part for statement in message.reserved for part in statement):
            if isinstance(part, str):
                written.reserved_name.append(part)
            else:
                written.reserved_range.add(start=part[0], end=part[1] + 1)
        for part in (part for statement in message.extensions for part in statement):
            if not isinstance(part, str):
                written.extension_range.add(start=part[0], end=part[1] + 1)

    def fields(self, written: Any, message: ProtoMessage, scope: str) -> None:
        for field in message.fields:
            self.field(written.field.add(), written.nested_type, field, scope)
        for position, oneof in enumerate(message.oneofs):
            _set_options(written.oneof_decl.add(name=oneof.name), oneof.options)
            for field in oneof.fields:
                added = written.field.add(oneof_index=position)
                self.field(added, written.nested_type, field, scope)
        if self.is_proto3:
            self.synthetic_oneofs(written, message)

    def synthetic_oneofs(self, written: Any, message: ProtoMessage) -> None:
        """An optional field of proto3 is alone in a synthetic oneof."""
        optional = {field.name for field in message.fields if field.label == "optional"}
        taken = {oneof.name for oneof in message.oneofs} | {f.name for f in message.all_fields()}
        for field in written.field:
            if field.name in optional:
                name = f"_{field.name}"
                while name in taken:
                    name = f"X{name}"
                taken.add(name)
                field.proto3_optional = True
                field.oneof_index = len(written.oneof_decl)
                written.oneof_decl.add(name=name)

    def field(self, written: Any, nested: Any, field: ProtoField, scope: str) -> None:
        written.name, written.number = field.name, field.number
        written.label = _LABELS[field.label]
        written.json_name = json_name(field.name)
        options = field.options
        for option in options:
            if option.name == "json_name":
                written.json_name = option.value
            elif option.name == "default":
                written.default_value = str(option.value)
        own = [option for option in options if option.name not in ("json_name", "default")]
        _set_options(written, own)
        if field.map_key:
            self.map_entry(written, nested.add(), field, scope)
        elif field.group is not None:
            self.message(nested.add(), field.group, scope)
            written.type = _FIELD.TYPE_GROUP
            written.type_name = f".{scope}.{field.group.name}"
        else:
            self.typed(written, field.type, scope)

    def map_entry(self, written: Any, entry: Any, field: ProtoField, scope: str) -> None:
        name = json_name(field.name)
        entry.name = f"{name[:1].upper()}{name[1:]}Entry"
        entry.options.map_entry = True
        for position, (part, kind) in enumerate((("key", field.map_key), ("value", field.type)), 1):
            added = entry.field.add(name=part, number=position, label=_FIELD.LABEL_OPTIONAL)
            added.json_name = part
            self.typed(added, kind, scope)
        written.label = _FIELD.LABEL_REPEATED
        written.type = _FIELD.TYPE_MESSAGE
        written.type_name = f".{scope}.{entry.name}"

    def typed(self, written: Any, name: str, scope: str) -> None:
        if name in SCALARS:
            written.type = _FIELD.Type.Value(f"TYPE_{name.upper()}")
            return
        found = self.schema.resolve(name, scope)
        assert found is not None, f"{name} was checked"
        written.type = _FIELD.TYPE_ENUM if found.is_enum else _FIELD.TYPE_MESSAGE
        written.type_name = f".{found.name}"

    def type_name(self, name: str, scope: str) -> str:
        found = self.schema.resolve(name, scope)
        assert found is not None, f"{name} was checked"
        return f".{found.name}"

    def extends(self, written: Any, nested: Any, extends: list[ProtoExtend], scope: str) -> None:
        for extend in extends:
            found = self.schema.resolve(extend.name, scope)
            for field in extend.fields:
                added = written.add(extendee=f".{found.name}" if found else extend.name)
                self.field(added, nested, field, scope)

    def enum(self, written: Any, enum: ProtoEnum) -> None:
        written.name = enum.name
        _set_options(written, enum.options)
        for constant in enum.constants:
            added = written.value.add(name=constant.name, number=constant.number)
            _set_options(added, constant.options)
        for part in (part for statement in enum.reserved for part in statement):
            if isinstance(part, str):
                written.reserved_name.append(part)
            else:
                written.reserved_range.add(start=part[0], end=min(part[1], 2**31 - 1))


def _set_options(written: Any, options: list[ProtoOption]) -> None:
    """Protobuf's own options. Custom ones need their extension's descriptor and are left out."""
    for option in options:
        field = written.options.DESCRIPTOR.fields_by_name.get(option.name)
        if field is None or field.message_type is not None or field.is_repeated:
            continue
        if field.enum_type is not None:
            number = field.enum_type.values_by_name.get(option.value)
            if number is not None:
                setattr(written.options, option.name, number.number)
        elif option.kind == "text":
            setattr(written.options, option.name, option.value)
        elif option.value in ("true", "false"):
            setattr(written.options, option.name, option.value == "true")
