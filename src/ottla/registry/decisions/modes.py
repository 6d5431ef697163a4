"""Modes: whether a subject is writable, and changes of that."""

from __future__ import annotations

from typing import Any, Final

from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import (
    invalid_mode,
    no_subject_mode,
    not_permitted,
    reference_exists,
    subject_not_found,
)
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subjects import DEFAULT_CONTEXT, context_of, split
from ottla.registry.topic_records import clear_subject_record, mode_record, schema_tombstone

MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")
READ_ONLY: Final = ("READONLY", "READONLY_OVERRIDE")
IMPORT: Final = "IMPORT"
FORWARD: Final = "FORWARD"


def check_writable(state: RegistryState, subject: str | None) -> None:
    if state.mode_in_scope(subject) in READ_ONLY:
        raise not_permitted(f"{_place(subject)} is in read-only mode")


def check_may_register(subject: str, mode: str, *, with_id: bool) -> None:
    if mode in READ_ONLY:
        raise not_permitted(f"{_place(subject)} is in read-only mode")
    if with_id and mode not in (IMPORT, FORWARD):
        raise not_permitted(f"{_place(subject)} is not in import mode")
    if not with_id and mode in (IMPORT, FORWARD):
        raise not_permitted(f"{_place(subject)} is not in read-write mode")


def mode_of(state: RegistryState, subject: str | None, *, default_to_global: bool) -> str:
    if subject is None or default_to_global:
        return state.mode_in_scope(subject)
    if subject not in state.modes:
        raise no_subject_mode(subject)
    return state.modes[subject]


def decide_mode(
    state: RegistryState, subject: str | None, mode: str, *, force: bool
) -> RegistryChange[dict[str, Any]]:
    mode = mode.upper()
    if mode not in MODES or (mode == FORWARD and subject is not None):
        raise invalid_mode()
    records = [mode_record(subject, mode)]
    if mode == IMPORT and state.mode_in_scope(subject) != IMPORT and not force:
        inside = [schema for schema in _all_versions(state) if _is_inside(schema.subject, subject)]
        if any(not schema.deleted for schema in inside):
            raise not_permitted("Cannot import since found existing subjects")
        for schema in inside:
            if state.referrers(schema.subject, schema.version):
                raise reference_exists(schema.subject, schema.version)
        cleared = dict.fromkeys(schema.subject for schema in inside)
        records += [schema_tombstone(schema) for schema in reversed(inside)]
        records += [clear_subject_record(name) for name in cleared]
    return RegistryChange({"mode": mode}, records)


def decide_mode_removal(
    state: RegistryState, subject: str | None, *, recursive: bool
) -> RegistryChange[dict[str, Any]]:
    if subject is not None and subject not in state.modes:
        raise subject_not_found(subject)
    was = state.modes.get(subject) or state.mode_in_scope(subject)
    places: list[str | None] = [subject] if subject in state.modes else []
    if recursive:
        places += [
            place
            for place in state.modes
            if place is not None and place != subject and _is_inside(place, subject)
        ]
    return RegistryChange({"mode": was}, [mode_record(place, None) for place in places])


def _all_versions(state: RegistryState) -> list[StoredSchema]:
    return [version for versions in state.subjects.values() for version in versions.values()]


def _is_inside(name: str, scope: str | None) -> bool:
    """True if a config or mode of `scope` applies to the subject `name`."""
    if scope is None:
        return context_of(name) == DEFAULT_CONTEXT
    context, own = split(scope)
    return context_of(name) == context if not own else name == scope


def _place(subject: str | None) -> str:
    context, name = split(subject or "")
    return f"Subject {name} in context {context}"
