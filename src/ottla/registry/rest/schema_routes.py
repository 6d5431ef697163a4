"""Schemas by id, by GUID, and all of them."""

from __future__ import annotations

from typing import Any, Final

from ottla.auth.acls import AclOperation
from ottla.registry.registry_error import schema_not_found
from ottla.registry.rest.call import RawText, RestCall
from ottla.registry.stored_schema import KINDS, StoredSchema
from ottla.registry.subject_access import denied
from ottla.registry.subjects import context_of
from ottla.registry.versions import (
    guid_bytes,
    has_prefix,
    names_of,
    page,
    preferred,
    schema_fields,
    text_fields,
    versions_with_id,
)

SCHEMAS_MAX: Final = 1000  # in one answer (schema.search.max.limit)


async def show_id(call: RestCall) -> dict[str, Any]:
    schema = _with_id(call)
    fields = _string_fields(call, schema)
    if call.flag("fetchMaxId"):
        fields["maxId"] = call.state.last_ids.get(context_of(schema.subject), 0)
    return fields


async def show_id_text(call: RestCall) -> RawText:
    schema = _with_id(call)
    return RawText(call.registry.text(schema, call.text("format")))


async def list_id_subjects(call: RestCall) -> list[str]:
    return page(names_of(_live(call)), call.integer("offset", 0), call.integer("limit", -1))


async def list_id_versions(call: RestCall) -> list[dict[str, Any]]:
    found = [{"subject": schema.subject, "version": schema.version} for schema in _live(call)]
    return page(found, call.integer("offset", 0), call.integer("limit", -1))


async def show_guid(call: RestCall) -> dict[str, Any]:
    guid = call.words["guid"]
    for context, id in call.state.ids_of(guid_bytes(guid)).items():
        if found := call.readable(call.state.with_id(context, id)):
            return _string_fields(call, preferred(found))
    raise schema_not_found(guid)


async def list_guid_ids(call: RestCall) -> list[dict[str, Any]]:
    """A GUID is a digest of the schema: only callers that may read it learn that it exists."""
    ids = call.state.ids_of(guid_bytes(call.words["guid"])).items()
    found = [
        {"context": context, "id": id}
        for context, id in ids
        if call.readable(call.state.with_id(context, id))
    ]
    if not found:
        raise schema_not_found(call.words["guid"])
    return found


async def list_types(call: RestCall) -> list[str]:
    return list(KINDS)


async def list_schemas(call: RestCall) -> list[dict[str, Any]]:
    deleted, latest_only = call.flag("deleted"), call.flag("latestOnly")
    prefix, rule_type = call.text("subjectPrefix"), call.text("ruleType")
    found: list[StoredSchema] = []
    for subject in sorted(call.state.subjects):
        if has_prefix(subject, prefix):
            versions = call.readable(call.state.versions(subject, deleted=deleted))
            found += versions[-1:] if latest_only else versions
    if rule_type:
        found = [schema for schema in found if rule_type in _rule_types(schema)]
    limit = call.integer("limit", SCHEMAS_MAX)
    some = page(found, call.integer("offset", 0), min(limit, SCHEMAS_MAX) if limit > 0 else -1)
    return [schema_fields(schema) for schema in some[:SCHEMAS_MAX]]


def _versions(call: RestCall) -> list[StoredSchema]:
    """The versions with the path's id that the caller may read. Ids count up from 1, so the
    existence of one is no secret."""
    found = versions_with_id(call.state, call.number("id"), call.text("subject") or None)
    readable = call.readable(found)
    if not readable:
        raise denied(AclOperation.READ, f"Schema: {call.number('id')}")
    return readable


def _with_id(call: RestCall) -> StoredSchema:
    return preferred(_versions(call), call.text("subject"))


def _live(call: RestCall) -> list[StoredSchema]:
    deleted = call.flag("deleted")
    return [version for version in _versions(call) if deleted or not version.deleted]


def _string_fields(call: RestCall, schema: StoredSchema) -> dict[str, Any]:
    return {
        **text_fields(
            schema,
            call.registry.text(schema, call.text("format")),
            qualify=call.qualifies_references,
        ),
        "guid": schema.guid_text,
        "subject": schema.subject,
        "version": schema.version,
        "ts": schema.timestamp,
    }


def _rule_types(schema: StoredSchema) -> set[str]:
    groups = (rules for rules in (schema.rule_set or {}).values() if isinstance(rules, list))
    return {rule["type"] for rules in groups for rule in rules}
