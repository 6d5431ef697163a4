"""Register a schema under a subject, or find the version that is the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.registry.compatibility import compatibility_messages
from ottla.registry.decisions.modes import check_may_register
from ottla.registry.parsed_schema_cache import (
    ParsedSchemaCache,
    referenced_texts,
    resolved_references,
)
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import (
    RegistryError,
    incompatible,
    invalid_schema,
    not_permitted,
)
from ottla.registry.reserved_fields import reserved_field_messages
from ottla.registry.rules import merged, merged_rules
from ottla.registry.schema_request import SchemaRequest
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import AVRO, VERSION_PROPERTY, StoredSchema
from ottla.registry.subjects import context_of
from ottla.registry.topic_records import context_record, schema_record, schema_tombstone

IMPORT_MODES: Final = ("IMPORT", "FORWARD")
NEXT: Final = -1  # as a version: the next one


@dataclass(frozen=True, slots=True)
class SchemaRegistration:
    """A request, and how to treat it."""

    subject: str
    request: SchemaRequest
    normalize: bool = False
    force: bool = False  # skips the compatibility check
    stamped: bool = False  # a new version has its number in confluent:version


def decide_register(
    state: RegistryState, schemas: ParsedSchemaCache, registration: SchemaRegistration
) -> RegistryChange[StoredSchema]:
    subject, request = registration.subject, registration.request
    config = state.config_in_scope(subject)
    found = find_same(state, schemas, registration)
    # An imported id that the schema does not have yet makes another version of it.
    same_id = found is not None and request.id in (None, found.id)
    if found is not None and same_id and request.version in (None, NEXT, found.version):
        return RegistryChange(found)
    mode = state.mode_in_scope(subject)
    check_may_register(subject, mode, with_id=request.id is not None)
    version = _version(state, subject, request, importing=mode in IMPORT_MODES)
    new = candidate(state, schemas, registration, version=version)
    if found is None and (again := _same_guid(state, subject, new)) is not None:
        return RegistryChange(again)
    if mode not in IMPORT_MODES and not registration.force:
        messages = compatibility_messages(state, schemas, new, state.versions(subject), config)
        if config.get("validateFields"):
            messages += reserved_field_messages(new, schemas.of(state, new), state.latest(subject))
        if messages:
            raise incompatible(subject, messages)
    stored = new.copied(subject, version, _id(state, new, request.id))
    return RegistryChange(stored, _records(state, stored))


def find_same(
    state: RegistryState,
    schemas: ParsedSchemaCache,
    registration: SchemaRegistration,
    *,
    deleted: bool = False,
    as_given: bool = False,
) -> StoredSchema | None:
    """The version of the subject with this schema: the same text, or the same meaning."""
    versions = state.versions(registration.subject, deleted=deleted)
    if not versions or not (
        registration.request.text or registration.request.metadata or registration.request.rule_set
    ):
        return None
    new = candidate(state, schemas, registration, version=None, as_given=as_given)
    for version in reversed(versions):
        if version.guid == new.guid:
            return version
    for version in reversed(versions):
        if version.kind == new.kind and _is_same(state, schemas, new, version):
            return version
    return None


def candidate(
    state: RegistryState,
    schemas: ParsedSchemaCache,
    registration: SchemaRegistration,
    *,
    version: int | None,
    as_given: bool = False,
) -> StoredSchema:
    """The schema as it would be stored, without its id. `version` None: for a lookup.

    `as_given`: without the config's defaults and overrides of metadata and rules.
    """
    subject, request = registration.subject, registration.request
    config = state.config_in_scope(subject)
    if request.text and state.mode_in_scope(subject) in IMPORT_MODES:
        config = {}  # imports stay unchanged
    elif not as_given:
        request = _completed(state, registration, config, version)
    references = resolved_references(state, subject, request.references)
    texts = referenced_texts(state, subject, references)
    parsed = schemas.parse(request.kind, request.text, texts)
    text = parsed.canonical
    if registration.normalize or config.get("normalize"):
        text = schemas.normal(request.kind, request.text, texts)
        references = sorted(
            set(references), key=lambda reference: (reference.name, reference.subject)
        )
    return StoredSchema(
        subject,
        version or 0,
        0,
        text,
        kind=request.kind,
        references=references,
        metadata=request.metadata,
        rule_set=request.rule_set,
    )


def _completed(
    state: RegistryState,
    registration: SchemaRegistration,
    config: dict[str, Any],
    version: int | None,
) -> SchemaRequest:
    """Completed by what a request inherits from the previous version and the config."""
    request = registration.request
    previous = state.latest(registration.subject)
    if not request.text:
        if previous is None:
            raise invalid_schema("Empty schema")
        request = replace(
            request, text=previous.text, kind=previous.kind, references=previous.references
        )
    metadata, rule_set = request.metadata, request.rule_set
    if previous is not None and version is not None:
        metadata = previous.metadata if metadata is None else metadata
        rule_set = previous.rule_set if rule_set is None else rule_set
    metadata = merged(config.get("defaultMetadata"), metadata, config.get("overrideMetadata"))
    rule_set = merged_rules(config.get("defaultRuleSet"), rule_set, config.get("overrideRuleSet"))
    stamped = registration.stamped or request.version or VERSION_PROPERTY in _properties(metadata)
    if version and stamped:
        stamp = {"properties": {VERSION_PROPERTY: str(version)}}
        metadata = merged(metadata, stamp, None)
    return replace(request, metadata=metadata, rule_set=rule_set)


def _is_same(
    state: RegistryState, schemas: ParsedSchemaCache, new: StoredSchema, old: StoredSchema
) -> bool:
    """Equal, except for a confluent:version that one of them lacks, or for references that `new`
    has inlined in its text."""
    if not _is_same_metadata(new, old):
        return False
    if (new.rule_set or None) != (old.rule_set or None):
        return False
    if new.references == old.references:
        return new.text == old.text
    if new.references or new.kind != AVRO:
        return False
    try:
        texts = referenced_texts(state, old.subject, old.references)
        return schemas.resolved(old.kind, old.text, texts) == new.text
    except RegistryError:
        return False


def _is_same_metadata(new: StoredSchema, old: StoredSchema) -> bool:
    stated_version = _properties(new.metadata).get(VERSION_PROPERTY)
    had = _properties(old.metadata).get(VERSION_PROPERTY)
    if stated_version is not None and stated_version not in (had, str(old.version)):
        return False
    return _without_version(new.metadata) == _without_version(old.metadata)


def _without_version(metadata: dict[str, Any] | None) -> dict[str, Any]:
    properties = dict(_properties(metadata))
    properties.pop(VERSION_PROPERTY, None)
    rest = {name: value for name, value in (metadata or {}).items() if name != "properties"}
    return {**rest, "properties": properties} if properties else rest


def _properties(metadata: dict[str, Any] | None) -> dict[str, str]:
    found: dict[str, str] = (metadata or {}).get("properties") or {}
    return found


def _same_guid(state: RegistryState, subject: str, new: StoredSchema) -> StoredSchema | None:
    """With the metadata of the previous version, it may be that version."""
    return next((version for version in state.versions(subject) if version.guid == new.guid), None)


def _version(state: RegistryState, subject: str, request: SchemaRequest, *, importing: bool) -> int:
    highest = max(state.subjects.get(subject, {0: None}))
    if request.version in (None, NEXT):
        return highest + 1
    assert request.version is not None
    if not importing and request.version != highest + 1:
        raise invalid_schema("Version is not one more than previous version")
    return request.version


def _id(state: RegistryState, new: StoredSchema, wanted: int | None) -> int:
    """A schema has one id in a context, however many subjects have it."""
    context = context_of(new.subject)
    known = state.id_of(context, new.guid)
    if wanted is None:
        return state.next_id(context) if known is None else known
    if any(schema.guid != new.guid for schema in state.with_id(context, wanted)):
        raise not_permitted(
            f"Overwrite new schema with id {wanted} in context {context} is not permitted."
        )
    return wanted


def _records(state: RegistryState, new: StoredSchema) -> list[tuple[bytes, bytes | None]]:
    records = []
    context = context_of(new.subject)
    if context not in state.contexts:
        records.append(context_record(context))
    records.append(schema_record(new))
    for old in state.versions(new.subject, deleted=True):
        replaced = old.deleted and old.id == new.id and old.version < new.version
        if replaced and not state.referrers(old.subject, old.version):
            records.append(schema_tombstone(old))
    return records
