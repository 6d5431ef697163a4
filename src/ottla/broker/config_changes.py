"""Changing configs while the broker runs: what AlterConfigs and IncrementalAlterConfigs share.

A change is a function from the configs that are set to those that shall be. It is made on the
newest ones, validated as a whole, and only then written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.broker.resources import ResourceType, check_node_id, unsupported_type
from ottla.cluster.settings import ConfigChange
from ottla.config import (
    BROKER_CONFIGS,
    GROUP_CONFIGS,
    TOPIC_CONFIGS,
    ConfigError,
    ConfigType,
    Definition,
    Update,
    definition_of,
    format_value,
    validate_client_metrics,
    validate_group_overrides,
    validate_topic_overrides,
)
from ottla.config.definition import invalid_config, invalid_value
from ottla.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

VALUE_LENGTH_MAX = 32767

Table = Mapping[str, Definition]


class Operation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


Alteration = tuple[str, int, str | None]
"""A config's name, the operation, and the operation's value."""


def table_of(resource_type: int) -> Table:
    """The configs that this kind of resource can have."""
    if resource_type == ResourceType.TOPIC:
        return TOPIC_CONFIGS
    if resource_type == ResourceType.BROKER:
        return BROKER_CONFIGS
    if resource_type == ResourceType.GROUP:
        return GROUP_CONFIGS
    if resource_type == ResourceType.CLIENT_METRICS:
        return {}  # Kafka has no types for these, so that nobody can extend their lists
    raise unsupported_type(resource_type)


async def alter(
    broker: Broker, resource_type: int, name: str, change: ConfigChange, *, validate_only: bool
) -> None:
    """Change the configs of a resource, (BROKER '') those of all brokers; KafkaError refuses."""
    if resource_type == ResourceType.TOPIC:

        def validated(present: Mapping[str, str]) -> Mapping[str, str]:
            values = change(present)
            _check_lengths(values)
            validate_topic_overrides(broker.config, values)
            return values

        await broker.settings.alter_topic_config(name, validated, validate_only=validate_only)
        return
    if resource_type == ResourceType.GROUP:
        await _alter_group(broker, name, change, validate_only=validate_only)
        return
    if resource_type == ResourceType.CLIENT_METRICS:
        await _alter_client_metrics(broker, name, change, validate_only=validate_only)
        return
    assert resource_type == ResourceType.BROKER
    if name:
        check_node_id(name, broker.node_id)

    def checked(present: Mapping[str, str]) -> Mapping[str, str]:
        values = change(present)
        _check_lengths(values)
        _check_broker_config(broker, values, per_broker=bool(name))
        return values

    await broker.settings.alter_broker_config(name, checked, validate_only=validate_only)


async def _alter_group(
    broker: Broker, group_id: str, change: ConfigChange, *, validate_only: bool
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
    broker: Broker, name: str, change: ConfigChange, *, validate_only: bool
) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")

    def checked(present: Mapping[str, str]) -> Mapping[str, str]:
        values = change(present)
        _check_lengths(values)
        validate_client_metrics(values)
        return values

    await broker.settings.alter_client_metrics(name, checked, validate_only=validate_only)


def check_alterations(alterations: Sequence[Alteration]) -> None:
    """What is wrong with a request before any config is looked at."""
    names = [name for name, _, _ in alterations]
    if len(set(names)) != len(names):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [n for n, kind, value in alterations if value is None and kind != Operation.DELETE]
    if nulls:
        message = f"Null value not supported for : {', '.join(nulls)}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    for _, kind, _ in alterations:
        if kind not in tuple(Operation):
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {kind}")


def apply(
    alterations: Sequence[Alteration], present: Mapping[str, str], table: Table
) -> dict[str, str]:
    """What is set after these alterations. Lists grow and shrink from the default where unset."""
    values = dict(present)
    for name, kind, text in alterations:
        if kind == Operation.DELETE:
            values.pop(name, None)
            continue
        assert text is not None
        if kind == Operation.SET:
            values[name] = text
            continue
        definition = table.get(name)
        if definition is None and table is BROKER_CONFIGS:
            raise invalid_config(f"Unknown config name: {name}")
        if definition is None or definition.type is not ConfigType.LIST:
            verb = Operation(kind).name
            raise invalid_config(f"Can't {verb} to key {name} because its type is not LIST.")
        old = values.get(name, format_value(definition.default) or "")
        values[name] = ",".join(_edited(kind, _parts(old), _parts(text)))
    return values


def _edited(kind: int, old: list[str], given: list[str]) -> list[str]:
    if kind == Operation.APPEND:
        return old + [part for part in dict.fromkeys(given) if part not in old]
    return [part for part in old if part not in given]


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _check_lengths(values: Mapping[str, str]) -> None:
    if any(len(text) > VALUE_LENGTH_MAX for text in values.values()):
        raise invalid_config(
            "The configuration value cannot be added because it exceeds the maximum value size"
            f" of {VALUE_LENGTH_MAX} bytes."
        )


def _check_broker_config(broker: Broker, values: Mapping[str, str], *, per_broker: bool) -> None:
    """A name that nobody knows is kept and does nothing, as in Kafka: it may be a plug-in's."""
    config = broker.config
    found = {name: definition_of(name) for name in values}
    definitions = {name: each for name, each in found.items() if each is not None}
    fixed = [n for n, each in definitions.items() if each.update is Update.READ_ONLY]
    if fixed:
        raise _refused(f"Cannot update these configs dynamically: [{', '.join(fixed)}]")
    own = [n for n, each in definitions.items() if each.update is Update.PER_BROKER]
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
    try:  # and all together must still be a configuration that a broker can have
        if per_broker:
            after = config.with_dynamic(default=config.dynamic_default, broker=values)
        else:
            after = config.with_dynamic(default=values, broker=config.dynamic_broker)
        broker.check_security(after)
    except ConfigError as error:
        raise _refused(str(error)) from None


def _refused(message: str) -> KafkaError:
    """Kafka answers a bad broker config with INVALID_REQUEST, a bad topic config does not."""
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
