"""Deletes subjects and versions: soft deletes first, then hard deletes."""

from __future__ import annotations

from ottla.registry.decisions.modes import check_writable
from ottla.registry.registry_change import KeyValue, RegistryChange
from ottla.registry.registry_error import (
    context_not_empty,
    reference_exists,
    subject_not_found,
    subject_not_soft_deleted,
    subject_soft_deleted,
    version_not_soft_deleted,
    version_soft_deleted,
)
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of
from ottla.registry.topic_records import (
    config_record,
    context_tombstone,
    delete_subject_record,
    mode_record,
    schema_record,
    schema_tombstone,
)
from ottla.registry.versions import find_version


def decide_subject_removal(
    state: RegistryState, subject: str, *, permanent: bool
) -> RegistryChange[list[int]]:
    """Returns the numbers of the versions that this deletes."""
    check_writable(state, subject)
    versions = state.versions(subject, deleted=True)
    live = [version for version in versions if not version.deleted]
    if not versions:
        raise subject_not_found(subject)
    if not permanent and not live:
        raise subject_soft_deleted(subject)
    for version in versions if permanent else live:
        # Versions of one subject are deleted together, so references between them do not count.
        if any(other.subject != subject for other in _referrers(state, version, deleted=permanent)):
            raise reference_exists(subject, version.version)
        if permanent and not version.deleted:
            raise subject_not_soft_deleted(subject)
    if not permanent:
        numbers = [version.version for version in live]
        return RegistryChange(numbers, [delete_subject_record(subject, max(numbers))])
    numbers = [version.version for version in versions]
    tombstones = [schema_tombstone(version) for version in reversed(versions)]
    return RegistryChange(numbers, [*tombstones, *_settings(state, subject)])


def decide_version_removal(
    state: RegistryState, subject: str, version: str, *, permanent: bool
) -> RegistryChange[int]:
    check_writable(state, subject)
    if not state.subjects.get(subject):
        raise subject_not_found(subject)
    schema = find_version(state, subject, version, deleted=True)
    if not permanent and version.lower() in ("latest", "-1"):
        schema = find_version(state, subject, version, deleted=False)
    if not permanent and schema.deleted:
        raise version_soft_deleted(subject, schema.version)
    if _referrers(state, schema, deleted=permanent):
        raise reference_exists(subject, schema.version)
    if permanent and not schema.deleted:
        raise version_not_soft_deleted(subject, schema.version)
    if permanent:
        records = [schema_tombstone(schema)]
        if len(state.subjects[subject]) == 1:
            records += _settings(state, subject)
        return RegistryChange(schema.version, records)
    return RegistryChange(schema.version, [schema_record(schema, deleted=True)])


def decide_context_removal(state: RegistryState, context: str) -> RegistryChange[None]:
    if any(context_of(name) == context for name in state.subjects):
        raise context_not_empty(context)
    if context == DEFAULT_CONTEXT or context not in state.contexts:
        raise subject_not_found(f":{context}:")
    return RegistryChange(None, [context_tombstone(context), *_settings(state, f":{context}:")])


def _settings(state: RegistryState, subject: str) -> list[KeyValue]:
    """A subject's config and mode are deleted with its last version."""
    records: list[KeyValue] = []
    if subject in state.modes:
        records.append(mode_record(subject, None))
    if subject in state.configs:
        records.append(config_record(subject, None))
    return records


def _referrers(state: RegistryState, schema: StoredSchema, *, deleted: bool) -> list[StoredSchema]:
    """Soft-deleted referrers can come back, so they prevent a hard delete of what they refer to.
    They do not prevent its soft delete."""
    found = state.referrers(schema.subject, schema.version)
    return [referrer for referrer in found if deleted or not referrer.deleted]
