"""Modes: whether a subject can be written, and how they are set."""

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
        inside = [each for each in _all_versions(state) if _is_inside(each.subject, subject)]
        if any(not each.deleted for each in inside):
            raise not_permitted("Cannot import since found existing subjects")
        for each in inside:
            if state.referrers(each.subject, each.version):
                raise reference_exists(each.subject, each.version)
        cleared = dict.fromkeys(each.subject for each in inside)
        records += [schema_tombstone(each) for each in reversed(inside)]
        records += [clear_subject_record(each) for each in cleared]
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
            each
            for each in state.modes
            if each is not None and each != subject and _is_inside(each, subject)
        ]
    return RegistryChange({"mode": was}, [mode_record(each, None) for each in places])


def _all_versions(state: RegistryState) -> list[StoredSchema]:
    return [each for versions in state.subjects.values() for each in versions.values()]


def _is_inside(name: str, scope: str | None) -> bool:
    """Whether a config or mode of `scope` counts for the subject `name`."""
    if scope is None:
        return context_of(name) == DEFAULT_CONTEXT
    context, own = split(scope)
    return context_of(name) == context if not own else name == scope


def _place(subject: str | None) -> str:
    context, name = split(subject or "")
    return f"Subject {name} in context {context}"
