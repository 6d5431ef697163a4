"""A .proto file with its imports: names are resolved, protoc's rules are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.limits import check_limits
from ottla.schemas.protobuf.known_types import KNOWN_FILES, is_known_enum
from ottla.schemas.protobuf.message_checks import check_enum, check_message
from ottla.schemas.protobuf.parser import parse_proto
from ottla.schemas.protobuf.proto_file import ProtoEnum, ProtoField, ProtoFile, ProtoMessage

SCALARS = frozenset(
    (
        *("double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64"),
        *("fixed32", "fixed64", "sfixed32", "sfixed64", "bool", "string", "bytes"),
    )
)


@dataclass(eq=False, slots=True)
class ProtoType:
    """A message or an enum by its full name. Well-known files have no `element`."""

    name: str
    package: str
    element: ProtoMessage | ProtoEnum | None
    is_enum: bool

    @property
    def local_name(self) -> str:
        """The name without its package."""
        return self.name.removeprefix(f"{self.package}.") if self.package else self.name


class ProtobufSchema:
    def __init__(self, text: str, references: Mapping[str, str]) -> None:
        check_limits(text, references)
        self.file = read_file(text)
        self.types: dict[str, ProtoType] = {}
        files = {name: read_file(other) for name, other in references.items()}
        self.references = files
        for file in files.values():
            self._check_imports(file, files)
            self._define(file)
        self._check_imports(self.file, files)
        before = set(self.types)
        self._define(self.file)
        self._own = {name: found for name, found in self.types.items() if name not in before}
        self._check(self.file)

    def own_types(self) -> dict[str, ProtoType]:
        """The types that this file itself defines, by full name."""
        return self._own

    def resolve(self, name: str, scope: str) -> ProtoType | None:
        """The type that a name denotes within a scope: the innermost one wins."""
        if name.startswith("."):
            return self.types.get(name[1:])
        while True:
            found = self.types.get(f"{scope}.{name}" if scope else name)
            if found is not None or not scope:
                return found
            scope = scope.rpartition(".")[0]

    def field_type(self, field: ProtoField, scope: str) -> ProtoType | None:
        """The named type of a field; None for a scalar."""
        if field.group is not None:
            return self.types[f"{scope}.{field.group.name}"]
        return None if field.type in SCALARS else self.resolve(field.type, scope)

    def _check_imports(self, file: ProtoFile, files: Mapping[str, ProtoFile]) -> None:
        for _, name in file.imports:
            if name in files:
                continue
            if name not in KNOWN_FILES:
                raise InvalidSchema(
                    f'import "{name}" is not among the references: register that file and give '
                    "it as a reference of this name"
                )
            package = name.rpartition("/")[0].replace("/", ".")
            for type_name in KNOWN_FILES[name]:
                known = ProtoType(type_name, package, None, is_known_enum(type_name))
                self.types.setdefault(type_name, known)

    def _define(self, file: ProtoFile) -> None:
        for name, element in named_types(file):
            if name in self.types and self.types[name].element is not None:
                raise InvalidSchema(f'"{name}" is already defined')
            is_enum = isinstance(element, ProtoEnum)
            self.types[name] = ProtoType(name, file.package, element, is_enum)

    def _check(self, file: ProtoFile) -> None:
        for name, element in named_types(file):
            if isinstance(element, ProtoEnum):
                check_enum(name, element, file)
                continue
            check_message(name, element, file)
            for field in element.all_fields():
                self._check_type(field, name)
        for extend in file.extends:
            for field in extend.fields:
                self._check_type(field, file.package)
        for service in file.services:
            for method in service.methods:
                for type_name in (method.request, method.response):
                    found = self.resolve(type_name, file.package)
                    if found is None or found.is_enum:
                        raise InvalidSchema(
                            f'{service.name}.{method.name}: no message "{type_name}"'
                        )

    def _check_type(self, field: ProtoField, scope: str) -> None:
        if field.group is not None or field.type in SCALARS:
            return
        if self.resolve(field.type, scope) is None:
            raise InvalidSchema(
                f'field {scope}.{field.name}: "{field.type}" is not defined in this file or in '
                "its imports"
            )


def read_file(text: str) -> ProtoFile:
    """From text, or from a FileDescriptorProto in base64, which some clients register."""
    from ottla.schemas.protobuf.descriptor_reader import file_from_base64  # Google's library

    from_descriptor = file_from_base64(text)
    return parse_proto(text) if from_descriptor is None else from_descriptor


def named_types(file: ProtoFile) -> Iterator[tuple[str, ProtoMessage | ProtoEnum]]:
    """All types of a file with their full names, outer ones first."""
    todo = [(file.package, item) for item in reversed(file.types)]
    todo += [
        (file.package, field.group)
        for extend in file.extends
        for field in extend.fields
        if field.group is not None
    ]
    while todo:
        scope, item = todo.pop()
        name = f"{scope}.{item.name}" if scope else item.name
        yield name, item
        if isinstance(item, ProtoMessage):
            groups = [field.group for field in item.all_fields() if field.group is not None]
            todo += [(name, inner) for inner in reversed([*item.types, *groups])]
