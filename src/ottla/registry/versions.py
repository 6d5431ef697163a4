"""Reads a state: versions, ids and subjects, with the fields of Confluent's answers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla.registry.registry_error import (
    RegistryError,
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
    relative_to,
    split,
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


def find_version_in_contexts(
    state: RegistryState,
    subject: str,
    version: str,
    *,
    deleted: bool,
    may: Callable[[str], bool] = lambda name: True,
) -> StoredSchema:
    """In the default context, or in the first context that has the subject under this name and in
    which the caller `may` read it."""
    missing: RegistryError | None = None
    for name in names_in_contexts(state, subject):
        if name != subject and not may(name):
            continue
        try:
            return find_version(state, name, version, deleted=deleted)
        except RegistryError as error:
            missing = missing or error
    assert missing is not None
    raise missing


def names_in_contexts(state: RegistryState, subject: str) -> Iterator[str]:
    """The subject itself; if it names no context, also the same name in every other context."""
    yield subject
    if context_of(subject) == DEFAULT_CONTEXT:
        for context in sorted(state.contexts):
            if context != DEFAULT_CONTEXT:
                yield qualified(context, subject)


def version_number(version: str) -> int | None:
    """None is the latest version."""
    if version.lower() in LATEST:
        return None
    digits = version.removeprefix("+")
    if not digits.isascii() or not digits.isdigit() or not 0 < int(digits) <= VERSION_MAX:
        raise invalid_version(version)
    return int(digits)


def versions_with_id(state: RegistryState, id: int, subject: str | None) -> list[StoredSchema]:
    """In the context of `subject`; if it names none, first where a subject of its name has the id.

    RegistryError 40403.
    """
    if subject and split(subject)[1]:
        for name in names_in_contexts(state, stored_name(subject)):
            found = state.with_id(context_of(name), id)
            if any(schema.subject == name for schema in found):
                return found
    found = state.with_id(context_of(subject) if subject else DEFAULT_CONTEXT, id)
    if not found:
        raise schema_not_found(id)
    return found


def preferred(found: Sequence[StoredSchema], subject: str = "") -> StoredSchema:
    """A live version if there is one, of that subject if it has one."""
    wanted = split(subject)[1] if subject else ""
    return min(found, key=lambda schema: (split(schema.subject)[1] != wanted, schema.deleted))


def guid_bytes(guid: str) -> bytes:
    try:
        return uuid.UUID(guid).bytes
    except ValueError:
        raise schema_not_found(guid) from None


def subject_names(
    state: RegistryState, prefix: str, *, deleted: bool, deleted_only: bool
) -> list[str]:
    """All subjects whose names begin with `prefix`, sorted."""
    names = []
    for subject, versions in state.subjects.items():
        live = any(not version.deleted for version in versions.values())
        wanted = not live if deleted_only else (live or deleted)
        if wanted and has_prefix(subject, prefix):
            names.append(subject)
    return sorted(names)


def has_prefix(subject: str, prefix: str) -> bool:
    """In the default context, unless the prefix names another or all of them."""
    if prefix.startswith(EVERY_CONTEXT):
        return split(subject)[1].startswith(prefix.removeprefix(EVERY_CONTEXT))
    if prefix.startswith(":.:"):
        prefix = prefix.removeprefix(":.:")
    return subject.startswith(prefix) and (bool(prefix) or context_of(subject) == DEFAULT_CONTEXT)


def with_metadata(
    state: RegistryState, subject: str, wanted: Mapping[str, str], *, deleted: bool
) -> StoredSchema:
    versions = state.versions(subject, deleted=deleted)
    if not versions:
        raise subject_not_found(subject)
    for version in reversed(versions):
        properties = (version.metadata or {}).get("properties") or {}
        if all(properties.get(name) == value for name, value in wanted.items()):
            return version
    raise schema_not_found()


def page(found: Iterable[T], offset: int, limit: int) -> list[T]:
    """`limit` items from `offset` on; a limit of 0 or less means no limit."""
    rest = list(found)[max(offset, 0) :]
    return rest[:limit] if limit > 0 else rest


def schema_fields(
    schema: StoredSchema, text: str | None = None, *, qualify: bool = False
) -> dict[str, Any]:
    """A version, in the form of a GET request's answer."""
    fields: dict[str, Any] = {
        "subject": schema.subject,
        "version": schema.version,
        "id": schema.id,
        "guid": schema.guid_text,
        **text_fields(schema, text, qualify=qualify),
        "ts": schema.timestamp,
    }
    if schema.deleted:
        fields["deleted"] = True
    return fields


def text_fields(
    schema: StoredSchema, text: str | None = None, *, qualify: bool = False
) -> dict[str, Any]:
    """`qualify`: with the subjects of references in their contexts."""
    fields: dict[str, Any] = {
        "schemaType": schema.kind,
        "schema": schema.text if text is None else text,
    }
    if schema.references:
        fields["references"] = [
            {**reference.fields(), "subject": relative_to(schema.subject, reference.subject)}
            if qualify
            else reference.fields()
            for reference in schema.references
        ]
    if schema.metadata:
        fields["metadata"] = schema.metadata
    if schema.rule_set:
        fields["ruleSet"] = schema.rule_set
    return fields


def names_of(schemas: Sequence[StoredSchema]) -> list[str]:
    return sorted({schema.subject for schema in schemas})
