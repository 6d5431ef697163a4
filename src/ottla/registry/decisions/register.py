"""Register a schema under a subject, or find the version that is the same."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.registry.decisions.modes import check_may_register
from ottla.registry.parsed_schemas import ParsedSchemas, referenced_texts, resolved_references
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import (
    RegistryError,
    incompatible,
    invalid_schema,
    not_permitted,
)
from ottla.registry.reserved_fields import reserved_messages
from ottla.registry.rules import merged, merged_rules
from ottla.registry.schema_request import SchemaRequest
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import AVRO, VERSION_PROPERTY, StoredSchema
from ottla.registry.subjects import context_of
from ottla.registry.topic_records import context_record, schema_record, schema_tombstone
from ottla.registry.versions_check import messages_against

IMPORT_MODES: Final = ("IMPORT", "FORWARD")
NEXT: Final = -1  # as a version: whichever comes next


@dataclass(frozen=True, slots=True)
class SchemaRegistration:
    """A request, and how it is to be treated."""

    subject: str
    request: SchemaRequest
    normalize: bool = False
    force: bool = False  # skips the check of compatibility
    stamped: bool = False  # a new version says its number: confluent:version


def decide_register(
    state: RegistryState, schemas: ParsedSchemas, wish: SchemaRegistration
) -> RegistryChange[StoredSchema]:
    subject, request = wish.subject, wish.request
    config = state.config_in_scope(subject)
    found = find_same(state, schemas, wish)
    # An imported id that the schema does not have yet makes another version of it.
    same_id = found is not None and request.id in (None, found.id)
    if found is not None and same_id and request.version in (None, NEXT, found.version):
        return RegistryChange(found)
    mode = state.mode_in_scope(subject)
    check_may_register(subject, mode, with_id=request.id is not None)
    version = _version(state, subject, request, importing=mode in IMPORT_MODES)
    new = candidate(state, schemas, wish, version=version)
    if found is None and (again := _same_guid(state, subject, new)) is not None:
        return RegistryChange(again)
    if mode not in IMPORT_MODES and not wish.force:
        messages = messages_against(state, schemas, new, state.versions(subject), config)
        if config.get("validateFields"):
            messages += reserved_messages(new, schemas.of(state, new), state.latest(subject))
        if messages:
            raise incompatible(subject, messages)
    stored = new.copied(subject, version, _id(state, new, request.id))
    return RegistryChange(stored, _records(state, stored))


def find_same(
    state: RegistryState,
    schemas: ParsedSchemas,
    wish: SchemaRegistration,
    *,
    deleted: bool = False,
    as_given: bool = False,
) -> StoredSchema | None:
    """The version of the subject that is this schema: by its text, then by its meaning."""
    versions = state.versions(wish.subject, deleted=deleted)
    if not versions or not (wish.request.text or wish.request.metadata or wish.request.rule_set):
        return None
    new = candidate(state, schemas, wish, version=None, as_given=as_given)
    for each in reversed(versions):
        if each.guid == new.guid:
            return each
    for each in reversed(versions):
        if each.kind == new.kind and _is_same(state, schemas, new, each):
            return each
    return None


def candidate(
    state: RegistryState,
    schemas: ParsedSchemas,
    wish: SchemaRegistration,
    *,
    version: int | None,
    as_given: bool = False,
) -> StoredSchema:
    """The schema as it would be stored, without its id. `version` None: for a look-up.

    `as_given`: without what the config adds to metadata and rules.
    """
    subject, request = wish.subject, wish.request
    config = state.config_in_scope(subject)
    if request.text and state.mode_in_scope(subject) in IMPORT_MODES:
        config = {}  # what is imported stays as it was
    elif not as_given:
        request = _completed(state, wish, config, version)
    references = resolved_references(state, subject, request.references)
    texts = referenced_texts(state, subject, references)
    parsed = schemas.parse(request.kind, request.text, texts)
    text = parsed.canonical
    if wish.normalize or config.get("normalize"):
        text = schemas.normal(request.kind, request.text, texts)
        references = sorted(set(references), key=lambda each: (each.name, each.subject))
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
    wish: SchemaRegistration,
    config: dict[str, Any],
    version: int | None,
) -> SchemaRequest:
    """With what a request leaves to the version before it, and to the config."""
    request = wish.request
    previous = state.latest(wish.subject)
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
    stamped = wish.stamped or request.version or VERSION_PROPERTY in _properties(metadata)
    if version and stamped:
        stamp = {"properties": {VERSION_PROPERTY: str(version)}}
        metadata = merged(metadata, stamp, None)
    return replace(request, metadata=metadata, rule_set=rule_set)


def _is_same(
    state: RegistryState, schemas: ParsedSchemas, new: StoredSchema, old: StoredSchema
) -> bool:
    """The same but for a confluent:version that one of them lacks, or for references that `new`
    has in its own text."""
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
    said = _properties(new.metadata).get(VERSION_PROPERTY)
    had = _properties(old.metadata).get(VERSION_PROPERTY)
    if said is not None and said not in (had, str(old.version)):
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
    """With the metadata of the version before it, it may be that very version."""
    return next((each for each in state.versions(subject) if each.guid == new.guid), None)


def _version(state: RegistryState, subject: str, request: SchemaRequest, *, importing: bool) -> int:
    highest = max(state.subjects.get(subject, {0: None}))
    if request.version in (None, NEXT):
        return highest + 1
    assert request.version is not None
    if not importing and request.version != highest + 1:
        raise invalid_schema("Version is not one more than previous version")
    return request.version


def _id(state: RegistryState, new: StoredSchema, wanted: int | None) -> int:
    """One schema has one id in a context, under however many subjects it is."""
    context = context_of(new.subject)
    known = state.id_of(context, new.guid)
    if wanted is None:
        return state.next_id(context) if known is None else known
    if any(each.guid != new.guid for each in state.with_id(context, wanted)):
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
