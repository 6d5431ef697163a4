"""DescribeConfigs (key 32), v1 to v4.

Returns all configs of a topic, a broker, all brokers (BROKER with the name ''), the loggers, a
group or a client metrics subscription (the last two need not exist): each with its value and
source, and on request with its synonyms and its documentation.

v1  sources and synonyms (KIP-226)     v3  types and documentation (KIP-569)
"""

from __future__ import annotations

from ottla.broker.loggers import levels
from ottla.broker.request_context import RequestContext
from ottla.broker.resources import ConfigResourceType, check_node_id, unsupported_type
from ottla.broker.topic_configs import (
    DescribedConfig,
    broker_config_entries,
    client_metrics_config_entries,
    default_broker_config_entries,
    group_config_entries,
    select_entries,
    topic_config_entries,
)
from ottla.cluster.topics import check_topic_name
from ottla.config import ConfigType, ValueSource
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def handle(ctx: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=[_describe(ctx, request, resource) for resource in request.resources]
    )


def _describe(
    ctx: RequestContext, request: DescribeConfigsRequest, resource: DescribeConfigsResource
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
    wanted = select_entries(entries, resource.configuration_keys)
    result.configs = [_config(entry, request) for entry in wanted]
    return result


def _entries(ctx: RequestContext, resource_type: int, name: str) -> list[DescribedConfig]:
    broker = ctx.broker
    if resource_type == ConfigResourceType.TOPIC:
        check_topic_name(name)
        topic = broker.image.topics.get(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic_config_entries(broker.config, topic.configs)
    if resource_type == ConfigResourceType.BROKER:
        if not name:
            return default_broker_config_entries(broker.config)
        check_node_id(name, broker.node_id)
        return broker_config_entries(broker.config)
    if resource_type == ConfigResourceType.BROKER_LOGGER:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
        check_node_id(name, broker.node_id)
        return [_logger(logger, level) for logger, level in levels().items()]
    if resource_type == ConfigResourceType.GROUP:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")
        return group_config_entries(broker.config, broker.image.group_config(name))
    if resource_type == ConfigResourceType.CLIENT_METRICS:
        if not name:
            message = "Client metrics subscription name must not be empty"
            raise KafkaError(ErrorCode.INVALID_REQUEST, message)
        return client_metrics_config_entries(broker.image.client_metrics(name))
    raise unsupported_type(resource_type)


def _logger(name: str, level: str) -> DescribedConfig:
    return DescribedConfig(
        name=name,
        value=level,
        source=ValueSource.DYNAMIC_BROKER_LOGGER,
        type=ConfigType.UNKNOWN,
        doc="",
        read_only=False,
        sensitive=False,
        settings=[],
    )


def _config(
    entry: DescribedConfig, request: DescribeConfigsRequest
) -> DescribeConfigsResourceResult:
    synonyms = []
    if request.include_synonyms:
        synonyms = [
            DescribeConfigsSynonym(name=setting.name, value=setting.value, source=setting.source)
            for setting in entry.settings
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
