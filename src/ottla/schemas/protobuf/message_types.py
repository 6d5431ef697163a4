"""Message classes of a .proto schema, created at run time.

Each schema has its own descriptor pool, so that two versions of a message, or two files that define
the same name, never collide.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pool, message_factory

from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.protobuf.descriptor_writer import descriptor_of, referenced_descriptors
from ottla.schemas.protobuf.known_types import KNOWN_FILES
from ottla.schemas.protobuf.proto_file import ProtoFile, ProtoMessage
from ottla.schemas.protobuf.schema import ProtobufSchema
from ottla.schemas.schema_types import ParsedSchema

# Files that the protobuf package does not include.
_TEXTS = {
    "confluent/meta.proto": """syntax = "proto3"; package confluent;
        message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3;
          repeated Rule rules = 4; }
        message Rule { string name = 1; string doc = 2; string expr = 3; string sql = 4; }""",
    "confluent/type/decimal.proto": """syntax = "proto3"; package confluent.type;
        message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    "confluent/type/variant.proto": """syntax = "proto3"; package confluent.type;
        message Variant { bytes metadata = 1; bytes value = 2; }""",
    "google/type/date.proto": """syntax = "proto3"; package google.type;
        message Date { int32 year = 1; int32 month = 2; int32 day = 3; }""",
    "google/type/timeofday.proto": """syntax = "proto3"; package google.type;
        message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3;
          int32 nanos = 4; }""",
}


class MessageTypes:
    """The message classes of one schema."""

    def __init__(self, schema: ParsedSchema) -> None:
        body: ProtobufSchema = schema.body
        self._file = body.file
        self._pool = descriptor_pool.DescriptorPool()
        self._added: set[str] = set()
        self._classes: dict[tuple[int, ...], Any] = {}
        references = referenced_descriptors(body)
        name = "schema.proto"
        while name in references:
            name = f"own/{name}"
        for descriptor in (*references.values(), descriptor_of(body, name)):
            self._add(descriptor, references)

    def by_indexes(self, indexes: Sequence[int]) -> Any:
        """The class of the message at a record's message indexes."""
        key = tuple(indexes)
        found = self._classes.get(key)
        if found is None:
            found = self._classes[key] = self.by_name(message_name(self._file, key))
        return found

    def by_name(self, full_name: str) -> Any:
        try:
            descriptor = self._pool.FindMessageTypeByName(full_name)
        except KeyError:
            raise InvalidSchema(f"the schema has no message {full_name}") from None
        return message_factory.GetMessageClass(descriptor)

    def _add(self, descriptor: Any, references: dict[str, Any]) -> None:
        for name in descriptor.dependency:
            if name not in references:
                self._add_known(name)
        try:
            self._pool.Add(descriptor)
        except TypeError as error:  # the pool checks more than our parser
            raise InvalidSchema(str(error)) from None

    def _add_known(self, name: str) -> None:
        if name in self._added:
            return
        self._added.add(name)
        if name in _TEXTS:
            self._pool.Add(descriptor_of(ProtobufSchema(_TEXTS[name], {}), name))
            return
        assert name in KNOWN_FILES, f"{name} was checked"
        module = name.removesuffix(".proto").replace("/", ".") + "_pb2"
        try:
            file = importlib.import_module(module).DESCRIPTOR
        except ImportError:
            raise InvalidSchema(
                f'import "{name}" needs: pip install googleapis-common-protos'
            ) from None
        for dependency in file.dependencies:
            self._add_known(dependency.name)
        self._pool.AddSerializedFile(file.serialized_pb)


def message_name(file: ProtoFile, indexes: Sequence[int]) -> str:
    """The full name of the message at this path. Enums do not count; entries of maps count if they
    are written out (map_entries.py)."""
    parts = [file.package] if file.package else []
    messages = [item for item in file.types if isinstance(item, ProtoMessage)]
    for index in indexes:
        if index >= len(messages):
            raise InvalidSchema(f"the schema has no message at the indexes {list(indexes)}")
        message = messages[index]
        parts.append(message.name)
        messages = [item for item in message.types if isinstance(item, ProtoMessage)]
    return ".".join(parts)


def message_indexes(file: ProtoFile, full_name: str) -> tuple[int, ...]:
    """The path to a message, by its name with or without the package."""
    name = full_name.removeprefix(f"{file.package}.") if file.package else full_name
    indexes: list[int] = []
    types = file.types
    for part in name.split("."):
        messages = [item for item in types if isinstance(item, ProtoMessage)]
        found = next((at for at, item in enumerate(messages) if item.name == part), None)
        if found is None:
            raise InvalidSchema(f"the schema has no message {full_name}")
        indexes.append(found)
        types = messages[found].types
    return tuple(indexes)
