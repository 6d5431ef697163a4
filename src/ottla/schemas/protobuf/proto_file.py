"""The elements of a .proto file as written: order and spelling are kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ProtoOption:
    name: str  # with its parentheses: (confluent.field_meta).tags
    # "text" -> str, "word" -> str, "number" -> str, "map" -> [(key, value)], "list" -> [value]
    kind: str
    value: Any


@dataclass(slots=True)
class ProtoField:
    name: str
    number: int
    type: str
    label: str = ""
    map_key: str = ""  # of a map<key, type>
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""
    group: ProtoMessage | None = None


@dataclass(slots=True)
class ProtoOneof:
    name: str
    fields: list[ProtoField] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoConstant:
    name: str
    number: int
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoEnum:
    name: str
    constants: list[ProtoConstant] = field(default_factory=list)
    # A statement's parts: (1, 3) for "1 to 3", or a name.
    reserved: list[list[tuple[int, int] | str]] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoExtend:
    name: str
    fields: list[ProtoField] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoMessage:
    name: str
    fields: list[ProtoField] = field(default_factory=list)
    oneofs: list[ProtoOneof] = field(default_factory=list)
    types: list[ProtoMessage | ProtoEnum] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)
    reserved: list[list[tuple[int, int] | str]] = field(default_factory=list)
    extensions: list[list[tuple[int, int] | str]] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""

    def all_fields(self) -> list[ProtoField]:
        return [*self.fields, *(member for oneof in self.oneofs for member in oneof.fields)]


@dataclass(slots=True)
class ProtoMethod:
    name: str
    request: str
    response: str
    request_stream: bool = False
    response_stream: bool = False
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoService:
    name: str
    methods: list[ProtoMethod] = field(default_factory=list)
    options: list[ProtoOption] = field(default_factory=list)
    doc: str = ""


@dataclass(slots=True)
class ProtoFile:
    syntax: str = ""  # proto2, proto3, or empty
    edition: str = ""
    package: str = ""
    imports: list[tuple[str, str]] = field(default_factory=list)  # ("public", "a.proto")
    options: list[ProtoOption] = field(default_factory=list)
    types: list[ProtoMessage | ProtoEnum] = field(default_factory=list)
    extends: list[ProtoExtend] = field(default_factory=list)
    services: list[ProtoService] = field(default_factory=list)
