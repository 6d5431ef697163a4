"""Alters configs at run time: what AlterConfigs and IncrementalAlterConfigs share.

A change is a function from the current configs to the new ones. It is applied to the newest ones,
validated as a whole, and only then written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.broker.resources import ConfigResourceType, check_node_id, unsupported_type
from ottla.cluster.runtime_settings import ConfigChange
from ottla.config import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigDefinition,
    ConfigError,
    ConfigType,
    UpdateMode,
    definition_of,
    format_value,
    validate_client_metrics,
    validate_group_overrides,
    validate_topic_overrides,
)
from ottla.config.definition import invalid_config, invalid_value
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.parts import BrokerParts
    from ottla.cluster.runtime_settings import RuntimeSettings
    from ottla.config import ServerConfig

VALUE_LENGTH_MAX = 32767

ConfigDefinitions = Mapping[str, ConfigDefinition]


class AlterConfigOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


ConfigAlteration = tuple[str, int, str | None]
"""A config's name, the operation, and the operation's value."""


def definitions_of(resource_type: int) -> ConfigDefinitions:
    """The configs that a resource of this type can have."""
    if resource_type == ConfigResourceType.TOPIC:
        return TOPIC_CONFIGS
    if resource_type == ConfigResourceType.BROKER:
        return BROKER_CONFIGS
    if resource_type == ConfigResourceType.GROUP:
        return GROUP_CONFIGS
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        return {}  # Kafka has no types for these, so APPEND and SUBTRACT do not work on them
    raise unsupported_type(resource_type)


async def alter_config(
    broker: BrokerParts, resource_type: int, name: str, change: ConfigChange, *, validate_only: bool
) -> None:
    """Alter the configs of a resource; BROKER '' stands for all brokers. KafkaError if invalid."""
    if resource_type == ConfigResourceType.TOPIC:

        def validated(present: Mapping[str, str]) -> Mapping[str, str]:
            values = change(present)
            _check_lengths(values)
            validate_topic_overrides(broker.config, values)
            return values

        await broker.settings.alter_topic_config(name, validated, validate_only=validate_only)
        return
    if resource_type == ConfigResourceType.GROUP:
        await _alter_group(broker, name, change, validate_only=validate_only)
        return
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        await _alter_client_metrics(broker.settings, name, change, validate_only=validate_only)
        return
    assert resource_type == ConfigResourceType.BROKER
    if name:
        check_node_id(name, broker.node_id)

    def checked(present: Mapping[str, str]) -> Mapping[str, str]:
        values = change(present)
        _check_lengths(values)
        after = _checked_broker_config(broker.config, values, per_broker=bool(name))
        try:
            broker.check_security(after)
        except ConfigError as error:
            raise _refused(str(error)) from None
        return values

    await broker.settings.alter_broker_config(name, checked, validate_only=validate_only)


async def _alter_group(
    broker: BrokerParts, group_id: str, change: ConfigChange, *, validate_only: bool
) -> None:
    if not group_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")

    def checked(present: Mapping[str, str]) -> Mapping[str, str]:
        values = change(present)
        _check_lengths(values)
        validate_group_overrides(broker.config, values)
        return values

    await broker.settings.alter_group_config(group_id, checked, validate_only=validate_only)


async def _alter_client_metrics(
    settings: RuntimeSettings, name: str, change: ConfigChange, *, validate_only: bool
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

    def checked(present: Mapping[str, str]) -> Mapping[str, str]:
        values = change(present)
        _check_lengths(values)
        validate_client_metrics(values)
        return values

    await settings.alter_client_metrics(name, checked, validate_only=validate_only)


def check_alterations(alterations: Sequence[ConfigAlteration]) -> None:
    """KafkaError if the request itself is invalid, whatever the configs are."""
    names = [name for name, _, _ in alterations]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [n for n, kind, value in alterations if value is None and kind != AlterConfigOp.DELETE]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    for _, kind, _ in alterations:
        if kind not in tuple(AlterConfigOp):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {kind}")


def apply(
    alterations: Sequence[ConfigAlteration], present: Mapping[str, str], table: ConfigDefinitions
) -> dict[str, str]:
    """The configs after these alterations. APPEND and SUBTRACT start from the default if unset."""
    values = dict(present)
    for name, kind, text in alterations:
        if kind == AlterConfigOp.DELETE:
            values.pop(name, None)
            continue
        assert text is not None
        if kind == AlterConfigOp.SET:
            values[name] = text
            continue
        definition = table.get(name)
        if definition is None and table is BROKER_CONFIGS:
            raise invalid_config(f"Unknown config name: {name}")
        if definition is None or definition.type is not ConfigType.LIST:
            verb = AlterConfigOp(kind).name
            raise invalid_config(f"Can't {verb} to key {name} because its type is not LIST.")
        old = values.get(name, format_value(definition.default) or "")
        values[name] = ",".join(_edited(kind, _parts(old), _parts(text)))
    return values


def _edited(kind: int, old: list[str], changed: list[str]) -> list[str]:
    if kind == AlterConfigOp.APPEND:
        return old + [part for part in dict.fromkeys(changed) if part not in old]
    return [part for part in old if part not in changed]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_lengths(values: Mapping[str, str]) -> None:
    if any(len(text) > VALUE_LENGTH_MAX for text in values.values()):
        raise invalid_config(
            "The configuration value cannot be added because it exceeds the maximum value size"
            f" of {VALUE_LENGTH_MAX} bytes."
        )


def _checked_broker_config(
    config: ServerConfig, values: Mapping[str, str], *, per_broker: bool
) -> ServerConfig:
    """Unknown names are kept and have no effect, as in Kafka: they may belong to a plug-in."""
    known = [(name, definition_of(name)) for name in values]
    definitions = {name: config for name, config in known if config is not None}
    fixed = [n for n, config in definitions.items() if config.update is UpdateMode.READ_ONLY]
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    own = [n for n, config in definitions.items() if config.update is UpdateMode.PER_BROKER]
    if own and not per_broker:
        raise _refused(
            "Cannot update these configs at default cluster level, broker id must be specified:"
            f" {', '.join(own)}"
        )
    for name, definition in definitions.items():
        try:
            definition.parse(values[name])
        except ValueError as error:
            raise _refused(invalid_value(name, values[name], str(error))) from None
    try:  # all of them together must be a valid configuration
        if per_broker:
            return config.with_dynamic(default=config.dynamic_default, broker=values)
        return config.with_dynamic(default=values, broker=config.dynamic_broker)
    except ConfigError as error:
        raise _refused(str(error)) from None


def _refused(message: str) -> KafkaError:
    """Kafka answers a bad broker config with INVALID_REQUEST, a bad topic config does not."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
