"""The three schema languages behind one interface. Pure functions: nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.schemas import json_text
from ottla.schemas.avro.schema import AvroSchema
from ottla.schemas.avro.text import canonical_text as avro_canonical
from ottla.schemas.avro.text import normal_text as avro_normal
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.json_schema.document import JsonDocument
from ottla.schemas.protobuf.normal import normal_file, without_extensions
from ottla.schemas.protobuf.schema import ProtobufSchema
from ottla.schemas.protobuf.text import proto_text

__all__ = ["InvalidSchema", "ParsedSchema", "Reference", "formatted", "normalize", "parse"]


@dataclass(frozen=True)
class Reference:
    """Another schema by its subject and version, under the name that this schema uses for it."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True)
class ParsedSchema:
    """A valid schema. `canonical` is the text that is stored and compared."""

    kind: str
    text: str
    canonical: str
    # The form that the language's compatibility checker compares.
    body: Any = field(default=None, compare=False, repr=False)


def parse(
    kind: str, text: str, references: Mapping[str, str], *, strict: bool = True
) -> ParsedSchema:
    """Raises InvalidSchema. `references` has the texts by name, in dependency order.

    With `strict` off, for schemas that are stored already.
    """
    if kind == "AVRO":
        schema = AvroSchema(text, references, strict=strict)
        return ParsedSchema(kind, text, avro_canonical(schema.root, schema.referenced), schema)
    if kind == "JSON":
        document = JsonDocument(text, references)
        return ParsedSchema(kind, text, json_text.write_json(document.root.raw), document)
    if kind == "PROTOBUF":
        proto = ProtobufSchema(text, references)
        return ParsedSchema(kind, text, proto_text(proto.file), proto)
    raise InvalidSchema(f"No schema type {kind}: use AVRO, JSON or PROTOBUF")


def normalize(kind: str, text: str, references: Mapping[str, str]) -> str:
    """The text that is equal for schemas which differ only in order or notation."""
    schema = parse(kind, text, references)
    if kind == "AVRO":
        return avro_normal(schema.body.root, schema.body.referenced)
    if kind == "JSON":
        return json_text.write_json(schema.body.root.raw, sort_keys=True)
    if kind == "PROTOBUF":
        return proto_text(normal_file(schema.body))
    return schema.canonical


def formatted(kind: str, text: str, references: Mapping[str, str], format_name: str) -> str:
    """The text in the requested format; an unknown format is the usual text."""
    schema = parse(kind, text, references)
    if kind == "AVRO" and format_name == "resolved":
        return avro_canonical(schema.body.root)
    if kind == "PROTOBUF" and format_name == "serialized":
        from ottla.schemas.protobuf.descriptor_writer import serialized  # Google's library

        return serialized(schema.body)
    if kind == "PROTOBUF" and format_name == "ignore_extensions":
        return proto_text(without_extensions(schema.body.file))
    return schema.canonical
