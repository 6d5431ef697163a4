"""Reads a FileDescriptorProto in base64 back into a ProtoFile."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.protobuf.json_name import json_name
from ottla.schemas.protobuf.proto_file import (
    ProtoConstant,
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoMethod,
    ProtoOneof,
    ProtoOption,
    ProtoService,
)

# Possessive, so that a stranger's megabyte of spaces is not tried at each length.
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]++={0,2}\Z")
_FIELD = descriptor_pb2.FieldDescriptorProto


def file_from_base64(text: str) -> ProtoFile | None:
    """None if the text is not base64: then it is .proto text."""
    if not _BASE64.match(text.strip()):
        return None
    try:
        descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text))
    except (binascii.Error, DecodeError) as error:
        raise InvalidSchema(f"neither a .proto file nor a FileDescriptorProto: {error}") from error
    return file_of_descriptor(descriptor)


def file_of_descriptor(descriptor: Any) -> ProtoFile:
    file = ProtoFile(syntax=descriptor.syntax or "proto2", package=descriptor.package)
    for position, name in enumerate(descriptor.dependency):
        kind = "public" if position in descriptor.public_dependency else ""
        file.imports.append((kind, name))
    file.options = _options(descriptor.options)
    is_proto3 = file.syntax == "proto3"
    file.types += [_message(message, is_proto3) for message in descriptor.message_type]
    file.types += [_enum(enum) for enum in descriptor.enum_type]
    file.extends = _extends(descriptor.extension, is_proto3)
    for service in descriptor.service:
        methods = [
            ProtoMethod(
                method.name,
                method.input_type,
                method.output_type,
                method.client_streaming,
                method.server_streaming,
                _options(method.options),
            )
            for method in service.method
        ]
        file.services.append(ProtoService(service.name, methods, _options(service.options)))
    return file


def _message(descriptor: Any, is_proto3: bool) -> ProtoMessage:
    message = ProtoMessage(descriptor.name, options=_options(descriptor.options))
    groups = {
        field.type_name.rpartition(".")[2]
        for field in descriptor.field
        if field.type == _FIELD.TYPE_GROUP
    }
    message.types += [
        _message(nested, is_proto3)
        for nested in descriptor.nested_type
        if nested.name not in groups
    ]
    message.types += [_enum(enum) for enum in descriptor.enum_type]
    bodies = {
        nested.name: _message(nested, is_proto3)
        for nested in descriptor.nested_type
        if nested.name in groups
    }
    oneofs = [
        ProtoOneof(oneof.name, [], _options(oneof.options)) for oneof in descriptor.oneof_decl
    ]
    for field in descriptor.field:
        found = _field(field, is_proto3)
        if field.type == _FIELD.TYPE_GROUP:
            found.group = bodies[field.type_name.rpartition(".")[2]]
            found.type = "group"
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.label = ""
            oneofs[field.oneof_index].fields.append(found)
        else:
            message.fields.append(found)
    message.oneofs = [oneof for oneof in oneofs if oneof.fields]
    message.extends = _extends(descriptor.extension, is_proto3)
    message.reserved = [[(part.start, part.end - 1)] for part in descriptor.reserved_range]
    message.reserved += [[name] for name in descriptor.reserved_name]
    message.extensions = [[(part.start, part.end - 1)] for part in descriptor.extension_range]
    return message


def _field(descriptor: Any, is_proto3: bool) -> ProtoField:
    options = _options(descriptor.options)
    if descriptor.HasField("default_value"):
        quoted = descriptor.type in (_FIELD.TYPE_STRING, _FIELD.TYPE_BYTES)
        kind = "text" if quoted else "word"
        options.insert(0, ProtoOption("default", kind, descriptor.default_value))
    if descriptor.json_name not in ("", json_name(descriptor.name)):
        options.append(ProtoOption("json_name", "text", descriptor.json_name))
    field = ProtoField(descriptor.name, descriptor.number, _type(descriptor), options=options)
    if descriptor.label == _FIELD.LABEL_REPEATED:
        field.label = "repeated"
    elif descriptor.label == _FIELD.LABEL_REQUIRED:
        field.label = "required"
    elif descriptor.proto3_optional or not is_proto3:
        field.label = "optional"
    return field


def _type(descriptor: Any) -> str:
    if descriptor.type_name:
        return str(descriptor.type_name)
    return str(_FIELD.Type.Name(descriptor.type)).removeprefix("TYPE_").lower()


def _enum(descriptor: Any) -> ProtoEnum:
    enum = ProtoEnum(descriptor.name, options=_options(descriptor.options))
    enum.constants = [
        ProtoConstant(value.name, value.number, _options(value.options))
        for value in descriptor.value
    ]
    # Unlike those of a message, these ranges include their ends.
    enum.reserved = [[(part.start, part.end)] for part in descriptor.reserved_range]
    enum.reserved += [[name] for name in descriptor.reserved_name]
    return enum


def _extends(descriptors: Any, is_proto3: bool) -> list[ProtoExtend]:
    found: dict[str, ProtoExtend] = {}
    for descriptor in descriptors:
        extend = found.setdefault(descriptor.extendee, ProtoExtend(descriptor.extendee))
        extend.fields.append(_field(descriptor, is_proto3))
    return list(found.values())


def _options(options: Any) -> list[ProtoOption]:
    """Protobuf's own options. Those of extensions are opaque bytes without their extension."""
    found: list[ProtoOption] = []
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option" or field.message_type is not None:
            continue
        if field.is_repeated or field.is_extension:
            continue
        if field.enum_type is not None:
            found.append(
                ProtoOption(field.name, "word", field.enum_type.values_by_number[value].name)
            )
        elif isinstance(value, bool):
            found.append(ProtoOption(field.name, "word", str(value).lower()))
        elif isinstance(value, str):
            found.append(ProtoOption(field.name, "text", value))
        else:
            found.append(ProtoOption(field.name, "number", str(value)))
    return found
