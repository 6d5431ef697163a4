"""Subjects and their versions."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ottla.auth.acls import AclOperation
from ottla.registry.decisions.look_up_same import look_up_same
from ottla.registry.decisions.register import SchemaRegistration, decide_register
from ottla.registry.decisions.removals import decide_subject_removal, decide_version_removal
from ottla.registry.decisions.tags import decide_tags
from ottla.registry.registry_error import schema_not_found, subject_not_found
from ottla.registry.rest.call import RawText, RestCall
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subjects import EVERY_CONTEXT, check_registrable
from ottla.registry.versions import (
    find_version_in_contexts,
    names_in_contexts,
    page,
    schema_fields,
    subject_names,
    text_fields,
    with_metadata,
)


async def list_subjects(call: RestCall) -> list[str]:
    names = subject_names(
        call.state,
        call.text("subjectPrefix") if "subjectPrefix" in call.query else EVERY_CONTEXT,
        deleted=call.flag("deleted"),
        deleted_only=call.flag("deletedOnly"),
    )
    names = [name for name in names if call.may(AclOperation.DESCRIBE, name)]
    return page(names, call.integer("offset", 0), call.integer("limit", -1))


async def look_up(call: RestCall) -> dict[str, Any]:
    """The version of this subject with the schema in the body."""
    registration, deleted = _registration(call), call.flag("deleted")
    for name in names_in_contexts(call.state, registration.subject):
        if not call.state.versions(name, deleted=deleted):
            continue
        if not call.may(AclOperation.DESCRIBE, name):  # an alias in another context
            continue
        found = look_up_same(
            call.state, call.registry.schemas, replace(registration, subject=name), deleted=deleted
        )
        if found is not None:
            return _fields(call, found)
    if not call.state.versions(registration.subject, deleted=deleted):
        raise subject_not_found(registration.subject)
    raise schema_not_found()


async def register(call: RestCall) -> dict[str, Any]:
    check_registrable(call.subject())
    registration = _registration(call)
    if registration.force:  # as with the level NONE
        call.check(AclOperation.ALTER_CONFIGS, registration.subject)
    schema = await call.registry.write(
        lambda state: decide_register(state, call.registry.schemas, registration)
    )
    return {
        "id": schema.id,
        "version": schema.version,
        "guid": schema.guid_text,
        **text_fields(schema, call.registry.text(schema, call.text("format"))),
        "ts": schema.timestamp or _timestamp(call, schema),
    }


async def list_versions(call: RestCall) -> list[int]:
    subject = call.subject(alias=True)
    deleted, only = call.flag("deleted"), call.flag("deletedOnly")
    found = call.state.versions(subject, deleted=deleted or only)
    if not found:
        raise subject_not_found(subject)
    if only:
        found = [schema for schema in found if schema.deleted]
    negative = call.flag("deletedAsNegative")
    numbers = [
        -schema.version if negative and schema.deleted else schema.version for schema in found
    ]
    return page(numbers, call.integer("offset", 0), call.integer("limit", -1))


async def show_version(call: RestCall) -> dict[str, Any]:
    return _fields(call, _version(call))


async def show_version_text(call: RestCall) -> RawText:
    return RawText(call.registry.text(_version(call), call.text("format")))


async def list_referrers(call: RestCall) -> list[int]:
    schema = _version(call)
    deleted = call.flag("deleted")
    found = call.state.referrers(schema.subject, schema.version)
    found = [schema for schema in found if call.may(AclOperation.DESCRIBE, schema.subject)]
    ids = sorted({schema.id for schema in found if deleted or not schema.deleted})
    return page(ids, call.integer("offset", 0), call.integer("limit", -1))


async def find_metadata(call: RestCall) -> dict[str, Any]:
    wanted = dict(zip(call.query.get("key", []), call.query.get("value", []), strict=False))
    subject = call.subject(alias=True)
    found = with_metadata(call.state, subject, wanted, deleted=call.flag("deleted"))
    return _fields(call, found)


async def delete_subject(call: RestCall) -> list[int]:
    return await call.registry.write(
        partial(decide_subject_removal, subject=call.subject(), permanent=call.flag("permanent"))
    )


async def delete_version(call: RestCall) -> int:
    return await call.registry.write(
        partial(
            decide_version_removal,
            subject=call.subject(),
            version=call.words["version"],
            permanent=call.flag("permanent"),
        )
    )


async def change_tags(call: RestCall) -> dict[str, Any]:
    body, subject, version = call.fields(), check_registrable(call.subject()), call.words["version"]
    call.check(AclOperation.READ, subject)  # the answer shows the schema
    schema = await call.registry.write(
        lambda state: decide_tags(state, call.registry.schemas, subject, version, body)
    )
    return {"id": schema.id, "version": schema.version, **text_fields(schema)}


def _registration(call: RestCall) -> SchemaRegistration:
    subject = call.subject(alias=True)
    return SchemaRegistration(
        subject,
        call.schema_request(subject),
        normalize=call.flag("normalize"),
        force=call.flag("force"),
    )


def _version(call: RestCall) -> StoredSchema:
    return find_version_in_contexts(
        call.state,
        call.subject(alias=True),
        call.words["version"],
        deleted=call.flag("deleted"),
        may=lambda name: call.may(AclOperation.READ, name),
    )


def _fields(call: RestCall, schema: StoredSchema) -> dict[str, Any]:
    text = call.registry.text(schema, call.text("format"))
    return schema_fields(schema, text, qualify=call.qualifies_references)


def _timestamp(call: RestCall, schema: StoredSchema) -> int:
    """Of the record that was just written."""
    stored = call.state.version(schema.subject, schema.version)
    return stored.timestamp if stored is not None else 0
