"""The state behind the records of `_schemas`: subjects, versions, ids, configs, modes, contexts.

Only `apply` changes it. Invalid records are skipped with a warning, because one bad record must not
keep a registry from starting.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any, Final

from ottla.records.record import Record
from ottla.registry import topic_records
from ottla.registry.stored_schema import AVRO, SchemaReference, StoredSchema
from ottla.registry.subjects import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    context_of,
    qualified,
    relative_to,
)

DEFAULT_LEVEL: Final = "BACKWARD"
DEFAULT_MODE: Final = "READWRITE"
READONLY_OVERRIDE: Final = "READONLY_OVERRIDE"  # wins over every subject's mode

log = logging.getLogger("ottla.registry")

Version = tuple[str, int]


class RegistryState:
    """`default_level` is schema.compatibility.level of the server's settings."""

    def __init__(self, default_level: str = DEFAULT_LEVEL) -> None:
        self.default_level = default_level
        self.subjects: dict[str, dict[int, StoredSchema]] = {}
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.contexts: dict[str, None] = {DEFAULT_CONTEXT: None}
        self.associations: dict[bytes, dict[str, Any]] = {}
        self.last_ids: dict[str, int] = {}
        self._by_id: dict[str, dict[int, dict[Version, StoredSchema]]] = {}
        self._by_guid: dict[bytes, dict[str, int]] = {}
        self._referrers: dict[Version, set[Version]] = {}
        self._unknown: set[str] = set()

    def apply(self, record: Record) -> None:
        try:
            assert record.key is not None
            key = json.loads(record.key)
            value = None if record.value is None else json.loads(record.value)
            self._apply(key, value, record)
        except (ValueError, KeyError, TypeError, AssertionError) as error:
            log.warning("Skipping invalid record at offset %d: %r", record.offset, error)

    # Queries

    def versions(self, subject: str, *, deleted: bool = False) -> list[StoredSchema]:
        """In the order of their numbers; soft-deleted ones only if asked for."""
        found = self.subjects.get(subject, {}).values()
        return [version for version in found if deleted or not version.deleted]

    def latest(self, subject: str, *, deleted: bool = False) -> StoredSchema | None:
        for version in reversed(self.subjects.get(subject, {}).values()):
            if deleted or not version.deleted:
                return version
        return None

    def version(self, subject: str, version: int) -> StoredSchema | None:
        return self.subjects.get(subject, {}).get(version)

    def with_id(self, context: str, id: int) -> list[StoredSchema]:
        """Every version with this id, deleted ones too."""
        return list(self._by_id.get(context, {}).get(id, {}).values())

    def id_of(self, context: str, guid: bytes) -> int | None:
        return self._by_guid.get(guid, {}).get(context)

    def ids_of(self, guid: bytes) -> dict[str, int]:
        """Context to id."""
        return self._by_guid.get(guid, {})

    def referrers(self, subject: str, version: int) -> list[StoredSchema]:
        """Versions that refer to this one."""
        names = self._referrers.get((subject, version), ())
        return [self.subjects[name][number] for name, number in names]

    def next_id(self, context: str) -> int:
        return self.last_ids.get(context, 0) + 1

    def config_in_scope(self, subject: str | None) -> dict[str, Any]:
        """The subject's fields over those of its context, the global ones, the built-in ones."""
        found: dict[str, Any] = {"compatibilityLevel": self.default_level}
        for scope in reversed(list(scopes(subject))):
            found |= self.configs.get(scope, {})
        return found

    def mode_in_scope(self, subject: str | None) -> str:
        if self.modes.get(None) == READONLY_OVERRIDE:
            return READONLY_OVERRIDE
        for scope in scopes(subject):
            if (mode := self.modes.get(scope)) is not None:
                return mode
        return DEFAULT_MODE

    def alias(self, subject: str) -> str:
        found = self.configs.get(subject, {}).get("alias")
        return qualified(context_of(subject), found) if found else subject

    # Records

    def _apply(self, key: dict[str, Any], value: dict[str, Any] | None, record: Record) -> None:
        kind = key["keytype"]
        if kind == topic_records.SCHEMA:
            self._remove(key["subject"], key["version"])
            if value is not None:
                self._add(_stored(value, record.timestamp))
        elif kind == topic_records.CONFIG:
            self._set(self.configs, key.get("subject"), value and _config(value))
        elif kind == topic_records.MODE:
            self._set(self.modes, key.get("subject"), value and value["mode"])
        elif kind == topic_records.DELETE_SUBJECT:
            if value is not None:
                self._soft_delete(value["subject"], value["version"])
        elif kind == topic_records.CLEAR_SUBJECT:
            if value is not None:
                self._clear(value["subject"])
        elif kind == topic_records.CONTEXT:
            self._set(self.contexts, key["context"], None if value is None else "")
        elif kind == topic_records.ASSOCIATION:
            assert record.key is not None
            self._set(self.associations, record.key, value and {**key, **value})
        elif kind != topic_records.NOOP and kind not in self._unknown:
            self._unknown.add(kind)
            log.warning("Skipping records with the keytype %s", kind)

    @staticmethod
    def _set(table: dict[Any, Any], key: Any, value: Any) -> None:
        if value is None:
            table.pop(key, None)
        else:
            table[key] = value

    def _add(self, schema: StoredSchema) -> None:
        name = (schema.subject, schema.version)
        versions = self.subjects.setdefault(schema.subject, {})
        out_of_order = versions and next(reversed(versions)) > schema.version
        versions[schema.version] = schema
        if out_of_order:
            self.subjects[schema.subject] = dict(sorted(versions.items()))
        context = context_of(schema.subject)
        self.contexts.setdefault(context)
        self.last_ids[context] = max(self.last_ids.get(context, 0), schema.id)
        self._by_id.setdefault(context, {}).setdefault(schema.id, {})[name] = schema
        self._by_guid.setdefault(schema.guid, {}).setdefault(context, schema.id)
        for reference in schema.references:
            referred = (relative_to(schema.subject, reference.subject), reference.version)
            self._referrers.setdefault(referred, set()).add(name)

    def _remove(self, subject: str, version: int) -> None:
        versions = self.subjects.get(subject, {})
        schema = versions.pop(version, None)
        if schema is None:
            return
        if not versions:
            del self.subjects[subject]
        context, name = context_of(subject), (subject, version)
        others = self._by_id[context][schema.id]
        del others[name]
        if not others:
            del self._by_id[context][schema.id]
            ids = self._by_guid[schema.guid]
            if ids.get(context) == schema.id:
                del ids[context]
            if not ids:
                del self._by_guid[schema.guid]
        for reference in schema.references:
            referred = (relative_to(subject, reference.subject), reference.version)
            self._referrers[referred].discard(name)

    def _soft_delete(self, subject: str, until: int) -> None:
        for schema in self.subjects.get(subject, {}).values():
            if schema.version <= until:
                schema.deleted = True

    def _clear(self, subject: str) -> None:
        for schema in self.versions(subject, deleted=True):
            if schema.deleted:
                self._remove(subject, schema.version)


def scopes(subject: str | None) -> Iterator[str | None]:
    """The places of a subject's config or mode, nearest first. None is global."""
    if subject is not None:
        yield subject
        context = context_of(subject)
        if context != DEFAULT_CONTEXT:
            yield f":{context}:"
            yield GLOBAL_CONTEXT
            return
    yield None
    yield GLOBAL_CONTEXT


def _stored(value: dict[str, Any], timestamp: int) -> StoredSchema:
    references = [
        SchemaReference(reference["name"], reference["subject"], reference["version"])
        for reference in value.get("references") or ()
    ]
    return StoredSchema(
        value["subject"],
        value["version"],
        value["id"],
        value["schema"],
        kind=value.get("schemaType") or AVRO,
        references=references,
        metadata=value.get("metadata"),
        rule_set=value.get("ruleSet"),
        deleted=bool(value.get("deleted")),
        timestamp=timestamp,
    )


def _config(value: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value[name] for name in topic_records.CONFIG_FIELDS if value.get(name) is not None
    }
