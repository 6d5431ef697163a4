"""Metadata and rule sets: their shape is checked, their fields get Confluent's order.

The registry only stores rules; clients run them.
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
ACTIONS: Final = ("onSuccess", "onFailure")
TEXT_FIELDS: Final = ("name", "doc", "type", "expr", *ACTIONS)
GROUPS: Final = (
    ("migrationRules", MIGRATION_MODES),
    ("domainRules", DOMAIN_MODES),
    ("encodingRules", DOMAIN_MODES),
)
DEFAULT_KIND: Final = "TRANSFORM"
DEFAULT_MODE: Final = "WRITEREAD"  # also of a migration rule, which then fails
ENVIRONMENTS: Final = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")
BOTH_WAYS: Final = ("WRITEREAD", "UPDOWN")  # modes that may have an action for each way
NAME_LETTERS_MAX: Final = 256
_FIRST: Final = re.compile(r"[^\W\d]")  # letters of any language
_NAME: Final = re.compile(r"[\w-]*")


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
        and all(isinstance(tag, list) for tag in tags.values())
        and all(isinstance(property_, str) for property_ in properties.values())
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
    """RegistryError 42210 with Confluent's message; 400 if it is not a rule set."""
    if rule_set is None:
        return None
    names: set[str] = set()
    found: dict[str, Any] = {}
    for group, modes in GROUPS:
        rules = rule_set.get(group) or []
        if not isinstance(rules, list) or not all(isinstance(entry, dict) for entry in rules):
            raise RegistryError(400, f"Malformed request: {group} is not a list of rules")
        checked = [_checked_rule(rule, group, modes, names) for rule in rules]
        if checked:
            found[group] = checked
    if rule_set.get("enableAt") is not None:
        found["enableAt"] = _one_of(rule_set["enableAt"], ENVIRONMENTS, "enableAt")
    return found


def merged(
    default: Mapping[str, Any] | None,
    given: Mapping[str, Any] | None,
    override: Mapping[str, Any] | None,
) -> dict[str, Any] | None:
    """Metadata in three layers: the last one wins, for each name."""
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
    """Rule sets in three layers: a later layer's rule replaces an earlier one of the same name."""
    layers = [layer for layer in (default, given, override) if layer is not None]
    if not layers:
        return None
    found: dict[str, Any] = {}
    for layer in layers:
        for group, _ in GROUPS:
            if rules := layer.get(group):
                news = {rule["name"]: rule for rule in rules}
                remaining = [rule for rule in found.get(group, []) if rule["name"] not in news]
                found[group] = [*remaining, *rules]
        if layer.get("enableAt"):
            found["enableAt"] = layer["enableAt"]
    return {name: found[name] for name in (*dict(GROUPS), "enableAt") if name in found}


def _checked_rule(
    rule: Mapping[str, Any], group: str, modes: tuple[str, ...], names: set[str]
) -> dict[str, Any]:
    """Fields, tags and params in Confluent's order."""
    kind = _one_of(rule.get("kind") or DEFAULT_KIND, KINDS, "kind")
    mode = _one_of(rule.get("mode") or DEFAULT_MODE, (*MIGRATION_MODES, *DOMAIN_MODES), "mode")
    name, tags, params = rule.get("name"), rule.get("tags") or [], rule.get("params") or {}
    right = (
        all(isinstance(rule.get(field), str | None) for field in TEXT_FIELDS)
        and isinstance(rule.get("disabled"), bool | None)
        and isinstance(tags, list)
        and all(isinstance(tag, str) for tag in tags)
        and isinstance(params, dict)
        and all(isinstance(param, str) for param in params.values())
    )
    if not right:
        raise RegistryError(400, f"Malformed request: a field of rule {name} has the wrong type")
    if name in names:
        raise invalid_rule_set(f"Found rule with duplicate name '{name}'")
    _check_name(name)
    assert name is not None
    names.add(name)
    if rule.get("type") is None:
        raise invalid_rule_set("Missing rule type")
    if mode not in BOTH_WAYS and any("," in (rule.get(field) or "") for field in ACTIONS):
        raise invalid_rule_set(f"Multiple actions only valid with {' and '.join(BOTH_WAYS)}")
    if mode not in modes:
        what = group.removesuffix("Rules").capitalize()
        raise invalid_rule_set(f"{what} rules can only be {', '.join(modes)}")
    found = {
        **{field: value for field, value in rule.items() if value},
        "kind": kind,
        "mode": mode,
        "disabled": bool(rule.get("disabled")),
        **({"tags": sorted(set(tags))} if tags else {}),
        **({"params": {param: params[param] for param in sorted(params)}} if params else {}),
    }
    return {field: found[field] for field in RULE_FIELDS if field in found}


def _check_name(name: str | None) -> None:
    if name is None:
        raise invalid_rule_set("Missing rule name")
    if not name:
        raise invalid_rule_set("Empty rule name")
    if len(name) > NAME_LETTERS_MAX:
        raise invalid_rule_set("Rule name too long")
    if not _FIRST.match(name):
        raise invalid_rule_set(f"Illegal initial character in rule name: {name}")
    if not _NAME.fullmatch(name):
        raise invalid_rule_set(f"Illegal character in rule name: {name}")


def _one_of(value: object, words: tuple[str, ...], what: str) -> str:
    """Confluent's registry fails to parse other words, which is a 400."""
    if not isinstance(value, str) or value not in words:
        raise RegistryError(400, f"Malformed request: {what} is {value}, not {', '.join(words)}")
    return value
