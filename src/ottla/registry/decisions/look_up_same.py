"""Schema lookup: the version of a subject that has this schema."""

from __future__ import annotations

from dataclasses import replace

from ottla.registry.decisions.register import SchemaRegistration, find_same
from ottla.registry.parsed_schema_cache import ParsedSchemaCache, resolved_references
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema


def look_up_same(
    state: RegistryState,
    schemas: ParsedSchemaCache,
    registration: SchemaRegistration,
    *,
    deleted: bool,
) -> StoredSchema | None:
    """Looks for the schema as given; then as a registration would complete it, because a client
    that knows only the text should find the version with metadata and rules."""
    request = registration.request
    if request.text:
        found = _verbatim(state, registration, deleted=deleted)
        if found is None:
            found = find_same(state, schemas, registration, deleted=deleted, as_given=True)
        if found is not None:
            return found
    previous = state.latest(registration.subject)
    if previous is not None:
        request = replace(
            request,
            metadata=previous.metadata if request.metadata is None else request.metadata,
            rule_set=previous.rule_set if request.rule_set is None else request.rule_set,
        )
    return find_same(state, schemas, replace(registration, request=request), deleted=deleted)


def _verbatim(
    state: RegistryState, registration: SchemaRegistration, *, deleted: bool
) -> StoredSchema | None:
    """A version with exactly this text. Most lookups end here, without parsing."""
    request = registration.request
    if registration.normalize or state.config_in_scope(registration.subject).get("normalize"):
        return None
    requested = (request.kind, request.metadata, request.rule_set)
    for version in reversed(state.versions(registration.subject, deleted=deleted)):
        if version.text == request.text and requested == (
            version.kind,
            version.metadata,
            version.rule_set,
        ):
            references = resolved_references(state, registration.subject, request.references)
            if version.references == tuple(references):
                return version
    return None
