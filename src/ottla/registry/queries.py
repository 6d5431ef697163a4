"""What a state answers: versions, ids, subjects, in the fields of Confluent's answers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla.registry.registry_error import (
    invalid_version,
    schema_not_found,
    subject_not_found,
    version_not_found,
)
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subjects import (
    DEFAULT_CONTEXT,
    EVERY_CONTEXT,
    context_of,
    qualified,
    stored_name,
)

LATEST: Final = ("latest", "-1")
VERSION_MAX: Final = 2**31 - 1

T = TypeVar("T")


def find_version(
    state: RegistryState, subject: str, version: str, *, deleted: bool
) -> StoredSchema:
    """RegistryError 42202, 40401 or 40402."""
    number = version_number(version)
    if not state.versions(subject, deleted=deleted):
        raise subject_not_found(subject)
    found = state.latest(subject, deleted=deleted)
    if number is not None:
        found = state.version(subject, number)
    if found is None or (found.deleted and not deleted):
        raise version_not_found(number or version)
    return found


def version_number(version: str) -> int | None:
    """None is the latest."""
    if version.lower() in LATEST:
        return None
    digits = version.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= VERSION_MAX:
        raise invalid_version(version)
    return int(digits)


def versions_with_id(state: RegistryState, id: int, subject: str | None) -> list[StoredSchema]:
    """In the context of `subject`; with a subject of no context, in any that has this id and it.

    RegistryError 40403.
    """
    context = DEFAULT_CONTEXT if not subject else context_of(subject)
    found = state.with_id(context, id)
    if not found and subject and context == DEFAULT_CONTEXT:
        for other in state.contexts:
            in_other = state.with_id(other, id)
            if any(each.subject == qualified(other, subject) for each in in_other):
                return in_other
    if not found:
        raise schema_not_found(id)
    return found


def preferred(found: Sequence[StoredSchema], subject: str = "") -> StoredSchema:
    """A live version if there is one, of that subject if it has one."""
    wanted = stored_name(subject) if subject else ""
    return min(found, key=lambda each: (each.subject != wanted, each.deleted))


def guid_bytes(guid: str) -> bytes:
    try:
        return uuid.UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None


def subject_names(
    state: RegistryState, prefix: str, *, deleted: bool, deleted_only: bool
) -> list[str]:
    """All whose name begins with `prefix`: of the default context, unless it names another."""
    names = []
    for subject, versions in state.subjects.items():
        live = any(not each.deleted for each in versions.values())
        wanted = not live if deleted_only else (live or deleted)
        if wanted and has_prefix(subject, prefix):
            names.append(subject)
    return names


def has_prefix(subject: str, prefix: str) -> bool:
    if prefix.startswith(EVERY_CONTEXT):
        return qualified(DEFAULT_CONTEXT, subject.rpartition(":")[2]).startswith(
            prefix.removeprefix(EVERY_CONTEXT)
        )
    if prefix.startswith(":.:"):
        prefix = prefix.removeprefix(":.:")
    return subject.startswith(prefix) and (bool(prefix) or context_of(subject) == DEFAULT_CONTEXT)


def with_metadata(
    state: RegistryState, subject: str, wanted: Mapping[str, str], *, deleted: bool
) -> StoredSchema:
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    for each in reversed(versions):
        properties = (each.metadata or {}).get("properties") or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return each
    raise schema_not_found()


def page(found: Iterable[T], offset: int, limit: int) -> list[T]:
    """From `offset` on; a limit that is not positive is none."""
    rest = list(found)[max(offset, 0) :]
    return rest[:limit] if limit > 0 else rest


def schema_fields(schema: StoredSchema, text: str | None = None) -> dict[str, Any]:
    """A version, as GET of it answers."""
    fields: dict[str, Any] = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid_text,
        **text_fields(schema, text),
        "ts": schema.timestamp,
    }
    if schema.deleted:
        fields["deleted"] = True
    return fields


def text_fields(schema: StoredSchema, text: str | None = None) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "schemaType": schema.kind,
        "schema": schema.text if text is None else text,
    }
    if schema.references:
        fields["references"] = [each.fields() for each in schema.references]
    if schema.metadata:
        fields["metadata"] = schema.metadata
    if schema.rule_set:
        fields["ruleSet"] = schema.rule_set
    return fields


def names_of(schemas: Sequence[StoredSchema]) -> list[str]:
    return sorted({each.subject for each in schemas})
