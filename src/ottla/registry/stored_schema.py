"""A version of a subject, as in a record of `_schemas`."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.schemas.schema_types import Reference

AVRO: Final = "AVRO"
JSON: Final = "JSON"
PROTOBUF: Final = "PROTOBUF"
KINDS: Final = (JSON, PROTOBUF, AVRO)  # in the order of Confluent's answer
VERSION_PROPERTY: Final = "confluent:version"


class SchemaReference(Reference):
    """A Reference in the JSON of clients and the topic."""

    def fields(self) -> dict[str, Any]:
        return {"name": self.name, "subject": self.subject, "version": self.version}


class StoredSchema:
    """With slots, because a registry may hold a hundred thousand of these."""

    __slots__ = (
        *("deleted", "guid", "id", "kind", "metadata", "references", "rule_set", "subject"),
        *("text", "timestamp", "version"),
    )

    def __init__(
        self,
        subject: str,
        version: int,
        id: int,
        text: str,
        *,
        kind: str = AVRO,
        references: Sequence[SchemaReference] = (),
        metadata: dict[str, Any] | None = None,
        rule_set: dict[str, Any] | None = None,
        deleted: bool = False,
        timestamp: int = 0,
    ) -> None:
        self.subject = subject
        self.version = version
        self.id = id
        self.text = text
        self.kind = kind
        self.references = tuple(references)
        self.metadata = metadata
        self.rule_set = rule_set
        self.deleted = deleted
        self.timestamp = timestamp
        self.guid = guid_of(text, self.references, metadata, rule_set)

    @property
    def guid_text(self) -> str:
        return str(uuid.UUID(bytes=self.guid))

    def copied(self, subject: str, version: int, id: int) -> StoredSchema:
        return StoredSchema(
            subject,
            version,
            id,
            self.text,
            kind=self.kind,
            references=self.references,
            metadata=self.metadata,
            rule_set=self.rule_set,
        )


def guid_of(
    text: str,
    references: Sequence[Reference],
    metadata: Mapping[str, Any] | None,
    rule_set: Mapping[str, Any] | None,
) -> bytes:
    """The MD5 that Confluent's clients compute, too: equal schemas have one id."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        digest.update(
            reference.name.encode() + reference.subject.encode() + reference.version.to_bytes(4)
        )
    if metadata is not None:
        digest.update(b"\1" + b"".join(_metadata_parts(metadata)))
    if rule_set is not None:
        digest.update(b"\1" + b"".join(_rule_set_parts(rule_set)))
    return digest.digest()


def _metadata_parts(metadata: Mapping[str, Any]) -> list[bytes]:
    parts: list[str] = []
    for path, tags in sorted((metadata.get("tags") or {}).items()):
        parts += [path, *sorted(tags)]
    for name, value in sorted((metadata.get("properties") or {}).items()):
        parts += [name, value]
    parts += sorted(metadata.get("sensitive") or [])
    return [part.encode() for part in parts]


def _rule_set_parts(rule_set: Mapping[str, Any]) -> list[bytes]:
    parts: list[bytes] = []
    for group in ("migrationRules", "domainRules", "encodingRules"):
        for rule in rule_set.get(group) or []:
            parts += _rule_parts(rule)
    if rule_set.get("enableAt"):
        parts.append(str(rule_set["enableAt"]).encode())
    return parts


def _rule_parts(rule: Mapping[str, Any]) -> list[bytes]:
    parts = [str(rule[name]) for name in ("name", "doc", "kind", "mode", "type") if rule.get(name)]
    parts += sorted(rule.get("tags") or [])
    for name, value in sorted((rule.get("params") or {}).items()):
        parts += [name, value]
    parts += [str(rule[name]) for name in ("expr", "onSuccess", "onFailure") if rule.get(name)]
    return [part.encode() for part in parts] + ([b"\1"] if rule.get("disabled") else [])
