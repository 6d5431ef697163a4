"""Metadata and rule sets: their shape is checked and their fields get Confluent's order.

The registry stores them; clients carry rules out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.registry.registry_error import RegistryError, invalid_rule_set

KINDS: Final = ("TRANSFORM", "CONDITION")
MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DOMAIN_MODES: Final = ("WRITE", "READ", "WRITEREAD")
RULE_FIELDS: Final = (
    *("name", "doc", "kind", "mode", "type", "tags", "params", "expr"),
    *("onSuccess", "onFailure", "disabled"),
)
GROUPS: Final = (
    ("migrationRules", MIGRATION_MODES),
    ("domainRules", DOMAIN_MODES),
    ("encodingRules", DOMAIN_MODES),
)
BOTH_WAYS: Final = ("UPDOWN", "WRITEREAD")  # modes that may have an action for each way
NAME_LETTERS_MAX: Final = 64
_NAME: Final = re.compile(r"[^\W\d][\w-]*")  # letters of any language


def checked_metadata(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """Tags and properties sorted by name, as Confluent's registry writes them."""
    if metadata is None:
        return None
    tags, properties = metadata.get("tags") or {}, metadata.get("properties") or {}
    sensitive = metadata.get("sensitive") or []
    right = (
        isinstance(tags, dict)
        and isinstance(properties, dict)
        and isinstance(sensitive, list)
        and all(isinstance(each, list) for each in tags.values())
        and all(isinstance(each, str) for each in properties.values())
    )
    if not right:
        raise RegistryError(400, "Malformed request: metadata has the wrong type")
    found: dict[str, Any] = {}
    if tags:
        found["tags"] = {path: sorted(set(tags[path])) for path in sorted(tags)}
    if properties:
        found["properties"] = {name: properties[name] for name in sorted(properties)}
    if sensitive:
        found["sensitive"] = sorted(set(sensitive))
    return found


def checked_rule_set(rule_set: dict[str, Any] | None) -> dict[str, Any] | None:
    """RegistryError 42210 says which rule is wrong, and in what."""
    if rule_set is None:
        return None
    names: set[str] = set()
    found: dict[str, Any] = {}
    for group, modes in GROUPS:
        rules = rule_set.get(group) or []
        if not isinstance(rules, list) or not all(isinstance(each, dict) for each in rules):
            raise invalid_rule_set(f"Invalid ruleset: {group} is not a list of rules")
        checked = [_checked_rule(rule, group, modes, names) for rule in rules]
        if checked:
            found[group] = checked
    if rule_set.get("enableAt"):
        found["enableAt"] = rule_set["enableAt"]
    return found


def merged(
    default: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    override: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Metadata in three layers: what comes later wins, name by name."""
    layers = [layer for layer in (default, given, override) if layer is not None]
    if not layers:
        return None
    found: dict[str, Any] = {}
    for layer in layers:
        for name in ("tags", "properties"):
            if layer.get(name):
                found[name] = {**found.get(name, {}), **layer[name]}
        if layer.get("sensitive"):
            found["sensitive"] = sorted({*found.get("sensitive", ()), *layer["sensitive"]})
    return checked_metadata(found)


def merged_rules(
    default: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    override: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Rule sets in three layers: a rule of a later layer replaces one of the same name."""
    layers = [layer for layer in (default, given, override) if layer is not None]
    if not layers:
        return None
    found: dict[str, Any] = {}
    for layer in layers:
        for group, _ in GROUPS:
            if rules := layer.get(group):
                news = {rule["name"]: rule for rule in rules}
                kept = [rule for rule in found.get(group, []) if rule["name"] not in news]
                found[group] = [*kept, *rules]
        if layer.get("enableAt"):
            found["enableAt"] = layer["enableAt"]
    return {name: found[name] for name in (*dict(GROUPS), "enableAt") if name in found}


def _checked_rule(
    rule: Mapping[str, Any], group: str, modes: tuple[str, ...], names: set[str]
) -> dict[str, Any]:
    name = rule.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > NAME_LETTERS_MAX:
        raise invalid_rule_set(f"Invalid ruleset: rule name '{name}' is not a legal name")
    if name in names:
        raise invalid_rule_set(f"Invalid ruleset: found rule with duplicate name '{name}'")
    names.add(name)
    if not rule.get("type"):
        raise invalid_rule_set(f"Invalid ruleset: missing type of rule '{name}'")
    kind, mode = rule.get("kind") or "TRANSFORM", rule.get("mode") or modes[-1]
    if kind not in KINDS:
        raise invalid_rule_set(f"Invalid ruleset: kind of rule '{name}' is {' or '.join(KINDS)}")
    if mode not in modes:
        raise invalid_rule_set(
            f"Invalid ruleset: {group} can only be {', '.join(modes)}; rule '{name}' is {mode}"
        )
    actions = (str(rule.get(field) or "") for field in ("onSuccess", "onFailure"))
    if mode not in BOTH_WAYS and any("," in action for action in actions):
        raise invalid_rule_set(
            f"Invalid ruleset: rule '{name}' has several actions, which only the modes"
            f" {' and '.join(BOTH_WAYS)} may have"
        )
    found = {field: rule[field] for field in RULE_FIELDS if rule.get(field)}
    return {
        field: {**found, "kind": kind, "mode": mode, "disabled": bool(rule.get("disabled"))}[field]
        for field in RULE_FIELDS
        if field in found or field in ("kind", "mode", "disabled")
    }
