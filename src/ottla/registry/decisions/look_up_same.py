"""Look a schema up: the version of a subject that it is."""

from __future__ import annotations

from dataclasses import replace

from ottla.registry.decisions.register import SchemaRegistration, find_same
from ottla.registry.parsed_schemas import ParsedSchemas, resolved_references
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema


def look_up_same(
    state: RegistryState, schemas: ParsedSchemas, wish: SchemaRegistration, *, deleted: bool
) -> StoredSchema | None:
    """The schema as it is given; then as a registration would complete it: a client that knows the
    text alone finds the version that has metadata and rules."""
    request = wish.request
    if request.text:
        found = _verbatim(state, wish, deleted=deleted)
        if found is None:
            found = find_same(state, schemas, wish, deleted=deleted, as_given=True)
        if found is not None:
            return found
    previous = state.latest(wish.subject)
    if previous is not None:
        request = replace(
            request,
            metadata=previous.metadata if request.metadata is None else request.metadata,
            rule_set=previous.rule_set if request.rule_set is None else request.rule_set,
        )
    return find_same(state, schemas, replace(wish, request=request), deleted=deleted)


def _verbatim(
    state: RegistryState, wish: SchemaRegistration, *, deleted: bool
) -> StoredSchema | None:
    """A version with this very text. Most clients have it from here, and it need not be parsed."""
    request = wish.request
    if wish.normalize or state.config_in_scope(wish.subject).get("normalize"):
        return None
    said = (request.kind, request.metadata, request.rule_set)
    for each in reversed(state.versions(wish.subject, deleted=deleted)):
        if each.text == request.text and said == (each.kind, each.metadata, each.rule_set):
            references = resolved_references(state, wish.subject, request.references)
            if each.references == tuple(references):
                return each
    return None
