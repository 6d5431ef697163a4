"""A new version of a schema that differs only in its metadata and rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ottla.registry.decisions.register import SchemaRegistration, decide_register
from ottla.registry.parsed_schema_cache import ParsedSchemaCache
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import invalid_rule_set, invalid_schema
from ottla.registry.rules import GROUPS, checked_rule_set, merged_rules
from ottla.registry.schema_request import SchemaRequest, read_schema_request
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.registry.versions import find_version


def decide_tags(
    state: RegistryState,
    schemas: ParsedSchemaCache,
    subject: str,
    version: str,
    body: Mapping[str, Any],
) -> RegistryChange[StoredSchema]:
    """Tags within a schema's text (tagsToAdd, tagsToRemove) can't be changed: 42201."""
    if body.get("tagsToAdd") or body.get("tagsToRemove"):
        raise invalid_schema("tagsToAdd and tagsToRemove are not served: register the text instead")
    merging = body.get("rulesToMerge") is not None or body.get("rulesToRemove") is not None
    if merging and body.get("ruleSet") is not None:
        raise invalid_rule_set(
            "ruleSet should be omitted if specifying rulesToMerge or rulesToRemove"
        )
    old = find_version(state, subject, version, deleted=False)
    request = read_schema_request({**body, "schema": old.text, "schemaType": old.kind})
    request = SchemaRequest(
        old.text,
        old.kind,
        old.references,
        request.metadata if request.metadata is not None else old.metadata,
        request.rule_set if not merging else _changed(old.rule_set, body),
        body.get("newVersion"),
    )
    if request.rule_set is None:
        request = replace(request, rule_set=old.rule_set)
    return decide_register(state, schemas, SchemaRegistration(subject, request, stamped=True))


def _changed(rule_set: Mapping[str, Any] | None, body: Mapping[str, Any]) -> dict[str, Any] | None:
    found = merged_rules(rule_set, checked_rule_set(body.get("rulesToMerge")), None)
    removed = set(body.get("rulesToRemove") or ())
    if found is None or not removed:
        return found
    remaining = {
        group: [rule for rule in found[group] if rule["name"] not in removed]
        for group, _ in GROUPS
        if group in found
    }
    return {group: rules for group, rules in remaining.items() if rules}
