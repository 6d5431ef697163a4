"""Requests to register, to look up or to check a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ottla.registry.registry_error import RegistryError, invalid_schema
from ottla.registry.rules import checked_metadata, checked_rule_set
from ottla.registry.stored_schema import AVRO, KINDS, SchemaReference


@dataclass(frozen=True, slots=True)
class SchemaRequest:
    """`version` and `id` are None unless given; an empty `text` means the previous version's text
    with other metadata."""

    text: str
    kind: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    version: int | None = None
    id: int | None = None


def read_schema_request(body: Mapping[str, Any]) -> SchemaRequest:
    """RegistryError 42201 or 42210; 400 if a field has the wrong type."""
    text = _optional(body, "schema", str) or ""
    kind = _optional(body, "schemaType", str) or AVRO
    if kind not in KINDS:
        raise invalid_schema(f"Invalid schema type {kind}")
    version, id = _optional(body, "version", int), _optional(body, "id", int)
    return SchemaRequest(
        text,
        kind,
        tuple(_reference(reference) for reference in _optional(body, "references", list) or ()),
        checked_metadata(_optional(body, "metadata", dict)),
        checked_rule_set(_optional(body, "ruleSet", dict)),
        version if version else None,
        id if id is not None and id > 0 else None,
    )


def _reference(fields: object) -> SchemaReference:
    if not isinstance(fields, dict):
        raise _wrong("references")
    name, subject = _optional(fields, "name", str), _optional(fields, "subject", str)
    version = _optional(fields, "version", int)
    if not name or not subject or version is None:
        raise invalid_schema("Invalid schema: a reference has a name, a subject and a version")
    return SchemaReference(name, subject, version)


def _optional(body: Mapping[str, Any], name: str, kind: type) -> Any:
    value = body.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise _wrong(name)


def _wrong(name: str) -> RegistryError:
    return RegistryError(400, f"Malformed request: {name} has the wrong type")
