"""Configs of topics, brokers, groups, loggers and client metrics.

Requests go over our own connections: librdkafka's client keeps one synonym for each name, and knows
neither the default of all brokers nor a broker's loggers nor client metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.permissions import denied
from ottla.client.protocol.connection import check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla.wire.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


class ResourceType(IntEnum):
    """The kinds of resources that have configs; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """The layer that a value comes from; numbers and names are Kafka's."""

    UNKNOWN_CONFIG = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        return cls.UNKNOWN_CONFIG


TYPE_NAMES: Final = (
    "unknown",
    "boolean",
    "string",
    "int",
    "short",
    "long",
    "double",
    "list",
    "class",
    "password",
)

_SET, _DELETE, _APPEND, _SUBTRACT = range(4)


@dataclass(slots=True, frozen=True)
class ConfigSynonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True, frozen=True)
class ConfigEntry:
    """A config's effective value and all its synonyms; the first synonym is in force."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: str
    documentation: str | None
    synonyms: tuple[ConfigSynonym, ...]


class ConfigAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def describe(
        self, kind: ResourceType, name: str, *, documentation: bool = False
    ) -> list[ConfigEntry]:
        """All configs of one resource, by name. The empty name means the default of all brokers."""
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(kind, name, None)],
            include_synonyms=True,
            include_documentation=documentation,
        )
        answer = self._session.connections.call(
            request, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsResponse, node_id=_home(kind, name)
        )
        result = answer.results[0]
        check(result.error_code, result.error_message, ApiKey.DESCRIBE_CONFIGS, name)
        return sorted(
            (_config(config) for config in result.configs), key=lambda config: config.name
        )

    def describe_topics(self, names: Iterable[str]) -> dict[str, list[ConfigEntry] | KafkaError]:
        """The configs of several topics, in one request."""
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(ResourceType.TOPIC, topic, None) for topic in names],
            include_synonyms=True,
        )
        if not request.resources:
            return {}
        answer = self._session.connections.call(
            request, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsResponse
        )
        found: dict[str, list[ConfigEntry] | KafkaError] = {}
        for result in answer.results:
            if result.error_code:
                code = ErrorCode(result.error_code)
                error = KafkaError(code, result.error_message or "")
                name = result.resource_name
                found[name] = denied(error, ApiKey.DESCRIBE_CONFIGS, name)
            else:
                found[result.resource_name] = [_config(config) for config in result.configs]
        return found

    def alter(
        self,
        kind: ResourceType,
        name: str,
        *,
        set: Mapping[str, str] | None = None,
        delete: Iterable[str] = (),
        append: Mapping[str, str] | None = None,
        subtract: Mapping[str, str] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Change some and leave the others as they are (KIP-339)."""
        changes = [
            *(AlterableConfig(config, _SET, value) for config, value in (set or {}).items()),
            *(AlterableConfig(config, _DELETE, None) for config in delete),
            *(AlterableConfig(config, _APPEND, value) for config, value in (append or {}).items()),
            *(
                AlterableConfig(config, _SUBTRACT, value)
                for config, value in (subtract or {}).items()
            ),
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(kind, name, changes)], validate_only=validate_only
        )
        answer = self._session.connections.call(
            request,
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            IncrementalAlterConfigsResponse,
            node_id=_home(kind, name),
        )
        for result in answer.responses:
            api_key = ApiKey.INCREMENTAL_ALTER_CONFIGS
            check(result.error_code, result.error_message, api_key, name)

    def resources(self, kind: ResourceType) -> list[str]:
        """The names of all groups or client metrics that have configs (KIP-1142)."""
        answer = self._session.connections.call(
            ListConfigResourcesRequest(resource_types=[kind]),
            ApiKey.LIST_CONFIG_RESOURCES,
            ListConfigResourcesResponse,
        )
        check(answer.error_code, "", ApiKey.LIST_CONFIG_RESOURCES)
        return [
            resource.resource_name
            for resource in answer.config_resources
            if resource.resource_type == kind
        ]


def _home(kind: ResourceType, name: str) -> int | None:
    """A broker answers for itself; any broker answers for the rest."""
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
        return int(name)
    return None


def _config(result: DescribeConfigsResourceResult) -> ConfigEntry:
    kind = result.config_type
    return ConfigEntry(
        result.name,
        result.value,
        ConfigSource(result.config_source),
        result.read_only,
        result.is_sensitive,
        TYPE_NAMES[kind] if 0 <= kind < len(TYPE_NAMES) else TYPE_NAMES[0],
        result.documentation,
        tuple(
            ConfigSynonym(synonym.name, synonym.value, ConfigSource(synonym.source))
            for synonym in result.synonyms
        ),
    )
