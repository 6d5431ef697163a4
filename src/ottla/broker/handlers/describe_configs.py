"""DescribeConfigs (key 32), v1 to v4.

Every config of a topic, a broker, all brokers (BROKER with the name ''), the loggers, a group or a
subscription to clients' metrics (the last two exist as soon as somebody asks), with its value,
where that came from, and on request what every other layer says and what it is for.

v1  sources and synonyms (KIP-226)     v3  types and documentation (KIP-569)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.broker.loggers import levels
from ottla.broker.resources import ResourceType, check_node_id, unsupported_type
from ottla.broker.topic_configs import (
    ConfigEntry,
    broker_entries,
    client_metrics_entries,
    cluster_default_entries,
    group_entries,
    only,
    topic_entries,
)
from ottla.cluster.decisions import check_topic_name
from ottla.config import ConfigType, Source
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(ctx: Context, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(ctx, request, resource) for resource in request.resources]
    )


def _describe(
    ctx: Context, request: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name
    )
    try:
        entries = _entries(ctx, resource.resource_type, resource.resource_name)
    except KafkaError as error:
        result.error_code = error.code
        result.error_message = error.message or None
        return result
    wanted = only(entries, resource.configuration_keys)
    result.configs = [_config(entry, request) for entry in wanted]
    return result


def _entries(ctx: Context, resource_type: int, name: str) -> list[ConfigEntry]:
    broker = ctx.broker
    if resource_type == ResourceType.TOPIC:
        check_topic_name(name)
        topic = broker.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_entries(broker.config, topic.configs)
    if resource_type == ResourceType.BROKER:
        if not name:
            return cluster_default_entries(broker.config)
        check_node_id(name, broker.node_id)
        return broker_entries(broker.config)
    if resource_type == ResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        check_node_id(name, broker.node_id)
        return [_logger(logger, level) for logger, level in levels().items()]
    if resource_type == ResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return group_entries(broker.config, broker.image.group_config(name))
    if resource_type == ResourceType.CLIENT_METRICS:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return client_metrics_entries(broker.image.client_metrics(name))
    raise unsupported_type(resource_type)


def _logger(name: str, level: str) -> ConfigEntry:
    return ConfigEntry(
        name=name,
        value=level,
        source=Source.DYNAMIC_BROKER_LOGGER,
        type=ConfigType.UNKNOWN,
        doc="",
        read_only=False,
        sensitive=False,
        settings=[],
    )


def _config(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=each.name, value=each.value, source=each.source)
            for each in entry.settings
        ]
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=synonyms,
        config_type=entry.type,
        documentation=entry.doc if request.include_documentation else None,
    )
