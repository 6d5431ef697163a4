"""Configs, modes, contexts, compatibility checks, and metadata of the registry."""

from __future__ import annotations

from functools import partial
from typing import Any

import ottla
from ottla.auth.acls import AclOperation
from ottla.registry.compatibility import compatibility_messages
from ottla.registry.decisions.configs import config_of, decide_config, decide_config_removal
from ottla.registry.decisions.modes import IMPORT, decide_mode, decide_mode_removal, mode_of
from ottla.registry.decisions.register import SchemaRegistration, candidate
from ottla.registry.decisions.removals import decide_context_removal
from ottla.registry.registry_error import RegistryError, invalid_mode, version_not_found
from ottla.registry.rest.call import RestCall
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.subjects import DEFAULT_CONTEXT, context_name, context_of
from ottla.registry.versions import find_version, page, version_number

INVALID_SCHEMA = 42201


async def show_config(call: RestCall) -> dict[str, Any]:
    wanted = call.flag("defaultToGlobal")
    return config_of(call.state, call.optional_subject(), default_to_global=wanted)


async def change_config(call: RestCall) -> dict[str, Any]:
    subject, body = call.optional_subject(), call.fields()
    return await call.registry.write(lambda state: decide_config(state, subject, body))


async def delete_config(call: RestCall) -> dict[str, Any]:
    subject = call.optional_subject()
    return await call.registry.write(lambda state: decide_config_removal(state, subject))


async def show_mode(call: RestCall) -> dict[str, Any]:
    wanted = call.flag("defaultToGlobal")
    return {"mode": mode_of(call.state, call.optional_subject(), default_to_global=wanted)}


async def change_mode(call: RestCall) -> dict[str, Any]:
    subject, mode = call.optional_subject(), call.fields().get("mode")
    if not isinstance(mode, str):
        raise invalid_mode()
    force = call.flag("force")
    if mode.upper() == IMPORT and not force:  # hard-deletes soft-deleted versions
        call.check_scope(AclOperation.DELETE, subject)
    return await call.registry.write(lambda state: decide_mode(state, subject, mode, force=force))


async def delete_mode(call: RestCall) -> dict[str, Any]:
    subject = call.optional_subject()
    if call.flag("recursive"):  # the modes of all subjects in it
        call.check_registry(AclOperation.ALTER_CONFIGS)
    return await call.registry.write(
        partial(decide_mode_removal, subject=subject, recursive=call.flag("recursive"))
    )


async def list_contexts(call: RestCall) -> list[str]:
    prefix = call.text("contextPrefix")
    visible = {DEFAULT_CONTEXT} | {
        context_of(subject)
        for subject in call.state.subjects
        if call.may(AclOperation.DESCRIBE, subject)
    }
    found = sorted(
        context
        for context in call.state.contexts
        if context.startswith(prefix) and (call.rights is None or context in visible)
    )
    return page(found, call.integer("offset", 0), call.integer("limit", -1))


async def delete_context(call: RestCall) -> None:
    context = context_name(call.words["context"])
    return await call.registry.write(lambda state: decide_context_removal(state, context))


async def check_version(call: RestCall) -> dict[str, Any]:
    """Against one version; `latest` of an empty subject is compatible."""
    subject = call.subject(alias=True)
    version = call.words["version"]
    if version_number(version) is None and call.state.latest(subject) is None:
        return _checked(call, subject, [], one_version=True)
    if not call.state.versions(subject):
        raise version_not_found(version)
    found = find_version(call.state, subject, version, deleted=False)
    return _checked(call, subject, [found], one_version=True)


async def check_versions(call: RestCall) -> dict[str, Any]:
    """By the rules of a registration."""
    subject = call.subject(alias=True)
    return _checked(call, subject, call.state.versions(subject), one_version=False)


def _checked(
    call: RestCall, subject: str, versions: list[StoredSchema], *, one_version: bool
) -> dict[str, Any]:
    verbose = call.flag("verbose")
    request = call.schema_request(subject)
    registration = SchemaRegistration(subject, request, normalize=call.flag("normalize"))
    schemas = call.registry.schemas
    try:
        new = candidate(call.state, schemas, registration, version=None)
        messages = compatibility_messages(
            call.state,
            schemas,
            new,
            versions,
            call.state.config_in_scope(subject),
            one_version=one_version,
        )
    except RegistryError as error:
        if error.code != INVALID_SCHEMA or not verbose:
            raise
        messages = [error.message]
    answer: dict[str, Any] = {"is_compatible": not messages}
    return {**answer, "messages": messages} if verbose else answer


async def show_root(call: RestCall) -> dict[str, Any]:
    return {}


async def show_cluster(call: RestCall) -> dict[str, Any]:
    clusters = {
        "kafka-cluster": call.registry.cluster_id,
        "schema-registry-cluster": call.registry.group_id,
    }
    return {"id": "", "scope": {"path": [], "clusters": clusters}}


async def show_server_version(call: RestCall) -> dict[str, Any]:
    return {"version": ottla.__version__, "commitId": "ottla"}


async def show_deployment(call: RestCall) -> dict[str, Any]:
    return {"attributes": ["deploymentScope:ottla"]}


async def list_associations(call: RestCall) -> list[dict[str, Any]]:
    """The associations of a subject or of a resource, as in the topic."""
    names = {"subject": "subject", "namespace": "resourceNamespace", "name": "resourceName"}
    wanted = {names[word]: value for word, value in call.words.items() if word in names}
    if wanted.get("resourceNamespace") == "-":  # of any cluster
        del wanted["resourceNamespace"]
    if call.text("resourceType"):
        wanted["resourceType"] = call.text("resourceType")
    kinds = call.query.get("associationType")
    if "resource_id" in call.words:
        wanted["resourceId"] = call.words["resource_id"]
    found = [
        {
            name: value
            for name, value in association.items()
            if name not in ("keytype", "magic", "tenant")
        }
        for association in call.state.associations.values()
        if all(association.get(name) == value for name, value in wanted.items())
        and (not kinds or association.get("associationType") in kinds)
        and call.may(AclOperation.DESCRIBE, str(association.get("subject")))
    ]
    return page(found, call.integer("offset", 0), call.integer("limit", -1))
