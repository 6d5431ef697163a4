"""Configs of topics, brokers, groups and whatever else has them.

Over plain lines: librdkafka's client keeps one synonym a name, and knows neither the default of all
brokers nor a broker's loggers nor client metrics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from ottla.client.permissions import denied
from ottla.client.protocol.connection import check
from ottla.client.session import Session
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
    """What has configs; the numbers are Kafka's."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Who set a value; the numbers and names are Kafka's."""

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
class Synonym:
    name: str
    value: str | None
    source: ConfigSource


@dataclass(slots=True, frozen=True)
class Config:
    """One config as it is in force, with all that was said about it; the first synonym counts."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    type: str
    documentation: str | None
    synonyms: tuple[Synonym, ...]


class Configs:
    def __init__(self, session: Session) -> None:
        self._session = session

    def describe(
        self, kind: ResourceType, name: str, *, documentation: bool = False
    ) -> list[Config]:
        """All configs of one resource, by name. The empty name means the default of all brokers."""
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(kind, name, None)],
            include_synonyms=True,
            include_documentation=documentation,
        )
        answer = self._session.lines.call(
            request, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsResponse, node_id=_home(kind, name)
        )
        result = answer.results[0]
        check(result.error_code, result.error_message, ApiKey.DESCRIBE_CONFIGS, name)
        return sorted((_config(each) for each in result.configs), key=lambda each: each.name)

    def describe_topics(self, names: Iterable[str]) -> dict[str, list[Config] | KafkaError]:
        """The configs of several topics, in one request."""
        request = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(ResourceType.TOPIC, each, None) for each in names],
            include_synonyms=True,
        )
        if not request.resources:
            return {}
        answer = self._session.lines.call(request, ApiKey.DESCRIBE_CONFIGS, DescribeConfigsResponse)
        found: dict[str, list[Config] | KafkaError] = {}
        for result in answer.results:
            if result.error_code:
                code = ErrorCode(result.error_code)
                error = KafkaError(code, result.error_message or "")
                name = result.resource_name
                found[name] = denied(error, ApiKey.DESCRIBE_CONFIGS, name)
            else:
                found[result.resource_name] = [_config(each) for each in result.configs]
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
            *(AlterableConfig(each, _SET, value) for each, value in (set or {}).items()),
            *(AlterableConfig(each, _DELETE, None) for each in delete),
            *(AlterableConfig(each, _APPEND, value) for each, value in (append or {}).items()),
            *(AlterableConfig(each, _SUBTRACT, value) for each, value in (subtract or {}).items()),
        ]
        request = IncrementalAlterConfigsRequest(
            resources=[AlterConfigsResource(kind, name, changes)], validate_only=validate_only
        )
        answer = self._session.lines.call(
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
        answer = self._session.lines.call(
            ListConfigResourcesRequest(resource_types=[kind]),
            ApiKey.LIST_CONFIG_RESOURCES,
            ListConfigResourcesResponse,
        )
        check(answer.error_code, "", ApiKey.LIST_CONFIG_RESOURCES)
        return [
            each.resource_name for each in answer.config_resources if each.resource_type == kind
        ]


def _home(kind: ResourceType, name: str) -> int | None:
    """A broker answers for itself; anyone answers for the rest."""
    if kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and name:
        return int(name)
    return None


def _config(found: DescribeConfigsResourceResult) -> Config:
    kind = found.config_type
    return Config(
        found.name,
        found.value,
        ConfigSource(found.config_source),
        found.read_only,
        found.is_sensitive,
        TYPE_NAMES[kind] if 0 <= kind < len(TYPE_NAMES) else TYPE_NAMES[0],
        found.documentation,
        tuple(Synonym(each.name, each.value, ConfigSource(each.source)) for each in found.synonyms),
    )
