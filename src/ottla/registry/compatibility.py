"""Compatibility of a schema with versions of its subject, by the config in scope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.registry.parsed_schema_cache import ParsedSchemaCache
from ottla.registry.state import RegistryState
from ottla.registry.stored_schema import StoredSchema
from ottla.schemas.compatibility.incompatibilities import incompatibilities

NONE: Final = "NONE"
TEXT_LETTERS_MAX: Final = 1000


def compatibility_messages(
    state: RegistryState,
    schemas: ParsedSchemaCache,
    new: StoredSchema,
    versions: Sequence[StoredSchema],
    config: Mapping[str, Any],
    *,
    one_version: bool = False,
) -> list[str]:
    """Why `new` may not follow `versions`, oldest first; empty if it may."""
    level = str(config["compatibilityLevel"])
    old = [
        version
        for version in versions
        if in_compatibility_group(new, version, config.get("compatibilityGroup"))
    ]
    if level == NONE or not old:
        return []
    policy = str(config.get("compatibilityPolicy") or "STRICT")
    parsed_new = schemas.of(state, new)
    levels = level if not one_version else level.removesuffix("_TRANSITIVE")
    looked_at = old if levels.endswith("_TRANSITIVE") else old[-1:]
    for version in reversed(looked_at):
        found = incompatibilities(
            levels.removesuffix("_TRANSITIVE"), parsed_new, [schemas.of(state, version)], policy
        )
        if found:
            return [*found, *_about(version, config, level)]
    return []


def in_compatibility_group(new: StoredSchema, old: StoredSchema, group: str | None) -> bool:
    """compatibilityGroup names a property: only versions with an equal value are compared."""
    if not group:
        return True
    return _property(new, group) == _property(old, group)


def _property(schema: StoredSchema, name: str) -> str | None:
    found: str | None = ((schema.metadata or {}).get("properties") or {}).get(name)
    return found


def _about(old: StoredSchema, config: Mapping[str, Any], level: str) -> list[str]:
    text = old.text
    if len(text) > TEXT_LETTERS_MAX:
        text = text[:TEXT_LETTERS_MAX] + "..."
    validate = str(bool(config.get("validateFields"))).lower()
    return [
        f"{{oldSchemaVersion: {old.version}}}",
        f"{{oldSchema: '{text}'}}",
        f"{{validateFields: '{validate}', compatibility: '{level}'}}",
    ]
