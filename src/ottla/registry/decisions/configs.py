"""Configs: the compatibility level and other settings of a subject, a context or all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.registry.decisions.modes import check_writable
from ottla.registry.registry_change import RegistryChange
from ottla.registry.registry_error import (
    RegistryError,
    invalid_level,
    no_subject_level,
    subject_not_found,
)
from ottla.registry.rules import checked_metadata, checked_rule_set
from ottla.registry.state import RegistryState
from ottla.registry.topic_records import CONFIG_FIELDS, config_record
from ottla.schemas.compatibility.incompatibilities import LEVELS, POLICIES

LEVEL: Final = "compatibilityLevel"
ASKED_LEVEL: Final = "compatibility"
FLAGS: Final = ("normalize", "validateFields", "validateNewSchemas", "validateRules")
NAMES: Final = ("alias", "aliasForDeks", "compatibilityGroup")


def config_of(
    state: RegistryState, subject: str | None, *, default_to_global: bool
) -> dict[str, Any]:
    if default_to_global:
        return ordered(state.config_in_scope(subject))
    if subject is None:
        return ordered({LEVEL: state.default_level, **state.configs.get(None, {})})
    if subject not in state.configs:
        raise no_subject_level(subject)
    return ordered(state.configs[subject])


def decide_config(
    state: RegistryState, subject: str | None, body: Mapping[str, Any]
) -> RegistryChange[dict[str, Any]]:
    """Fields that the request omits stay unchanged; null removes one."""
    check_writable(state, subject)
    if not body:
        return RegistryChange({ASKED_LEVEL: state.config_in_scope(subject)[LEVEL]})
    changes = checked_config(body)
    config = {**state.configs.get(subject, {}), **changes}
    config = {name: value for name, value in config.items() if value is not None}
    echo = {name: body[name] for name in body if body[name] is not None}
    if ASKED_LEVEL in echo:
        echo[ASKED_LEVEL] = changes[LEVEL]
    return RegistryChange(echo, [config_record(subject, config)])


def decide_config_removal(
    state: RegistryState, subject: str | None
) -> RegistryChange[dict[str, Any]]:
    check_writable(state, subject)
    if subject is not None and subject not in state.configs:
        raise subject_not_found(subject)
    was = ordered(state.configs.get(subject) or state.config_in_scope(subject))
    return RegistryChange(was, [config_record(subject, None)])


def checked_config(body: Mapping[str, Any]) -> dict[str, Any]:
    """The config in the topic's words. RegistryError 42203, 42210 or 400."""
    changes: dict[str, Any] = {}
    for name, value in body.items():
        if value is None:
            changes[LEVEL if name == ASKED_LEVEL else name] = None
        elif name == ASKED_LEVEL:
            changes[LEVEL] = str(value).upper()
            if changes[LEVEL] not in LEVELS:
                raise invalid_level()
        elif name == "compatibilityPolicy":
            changes[name] = str(value).upper()
            if changes[name] not in POLICIES:
                raise RegistryError(42203, f"Invalid compatibility policy: {value}")
        elif name in ("defaultMetadata", "overrideMetadata"):
            changes[name] = checked_metadata(value)
        elif name in ("defaultRuleSet", "overrideRuleSet"):
            changes[name] = checked_rule_set(value)
        elif (name in FLAGS and isinstance(value, bool)) or (
            name in NAMES and isinstance(value, str)
        ):
            changes[name] = value
        elif name in (*FLAGS, *NAMES):
            raise RegistryError(400, f"Malformed request: {name} has the wrong type")
    return changes


def ordered(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: config[name] for name in CONFIG_FIELDS if config.get(name) is not None}
