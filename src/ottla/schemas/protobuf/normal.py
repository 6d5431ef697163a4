"""The normal form of a .proto file: full names, and everything sorted that has no order."""

from __future__ import annotations

from dataclasses import replace

from ottla.schemas.protobuf.map_entries import with_maps
from ottla.schemas.protobuf.proto_file import (
    ProtoEnum,
    ProtoExtend,
    ProtoField,
    ProtoFile,
    ProtoMessage,
    ProtoMethod,
    ProtoOption,
)
from ottla.schemas.protobuf.schema import SCALARS, ProtobufSchema


def normal_file(schema: ProtobufSchema) -> ProtoFile:
    """Types keep their order, because message indexes count them."""
    file = schema.file
    namer = _Namer(schema)
    return replace(
        file,
        imports=sorted(set(file.imports), key=lambda item: (item[0] == "public", item[1])),
        options=_sorted_options(file.options),
        types=[namer.type(item, file.package) for item in file.types],
        extends=[namer.extend(item, file.package) for item in file.extends],
        services=[
            replace(
                service,
                doc="",
                options=_sorted_options(service.options),
                methods=[namer.method(method, file.package) for method in service.methods],
            )
            for service in file.services
        ],
    )


def without_extensions(file: ProtoFile) -> ProtoFile:
    """The file without `extend` statements and without options in parentheses."""
    return replace(
        file, extends=[], options=[option for option in file.options if option.name[0] != "("]
    )


class _Namer:
    def __init__(self, schema: ProtobufSchema) -> None:
        self.schema = schema

    def full(self, name: str, scope: str) -> str:
        found = None if name in SCALARS else self.schema.resolve(name, scope)
        return name if found is None else f".{found.name}"

    def type(self, item: ProtoMessage | ProtoEnum, scope: str) -> ProtoMessage | ProtoEnum:
        return self.message(item, scope) if isinstance(item, ProtoMessage) else _enum(item)

    def message(self, message: ProtoMessage, scope: str) -> ProtoMessage:
        scope = f"{scope}.{message.name}" if scope else message.name
        message = with_maps(message)
        oneofs = [
            replace(
                oneof,
                doc="",
                fields=self.fields(oneof.fields, scope),
                options=_sorted_options(oneof.options),
            )
            for oneof in message.oneofs
        ]
        oneofs.sort(key=lambda oneof: oneof.fields[0].number if oneof.fields else 0)
        return replace(
            message,
            doc="",
            fields=self.fields(message.fields, scope),
            oneofs=oneofs,
            types=[self.type(item, scope) for item in message.types],
            extends=[self.extend(item, scope) for item in message.extends],
            reserved=_split(message.reserved),
            extensions=_split(message.extensions),
            options=_sorted_options(message.options),
        )

    def fields(self, fields: list[ProtoField], scope: str) -> list[ProtoField]:
        found = [
            replace(
                field,
                doc="",
                type=self.full(field.type, scope) if field.group is None else field.type,
                group=None if field.group is None else self.message(field.group, scope),
                options=_sorted_options(field.options),
            )
            for field in fields
        ]
        return sorted(found, key=lambda field: field.number)

    def extend(self, extend: ProtoExtend, scope: str) -> ProtoExtend:
        fields = self.fields(extend.fields, scope)
        return replace(extend, doc="", name=self.full(extend.name, scope), fields=fields)

    def method(self, method: ProtoMethod, scope: str) -> ProtoMethod:
        return replace(
            method,
            doc="",
            request=self.full(method.request, scope),
            response=self.full(method.response, scope),
            options=_sorted_options(method.options),
        )


def _enum(enum: ProtoEnum) -> ProtoEnum:
    constants = [
        replace(constant, doc="", options=_sorted_options(constant.options))
        for constant in enum.constants
    ]
    constants.sort(key=lambda constant: (constant.number, constant.name))
    return replace(
        enum,
        doc="",
        constants=constants,
        reserved=_split(enum.reserved),
        options=_sorted_options(enum.options),
    )


def _sorted_options(options: list[ProtoOption]) -> list[ProtoOption]:
    return sorted(options, key=lambda option: option.name)


def _split(
    statements: list[list[tuple[int, int] | str]],
) -> list[list[tuple[int, int] | str]]:
    """One statement for each part, numbers first."""
    parts = [part for statement in statements for part in statement]
    numbers = sorted(part for part in parts if not isinstance(part, str))
    names = sorted(part for part in parts if isinstance(part, str))
    found: list[list[tuple[int, int] | str]] = [[part] for part in numbers]
    found += [[name] for name in names]
    return found
