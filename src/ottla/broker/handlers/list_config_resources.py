"""ListConfigResources (key 74), v0 to v1 (KIP-714, KIP-1142).

What there is to be described by DescribeConfigs: topics, brokers and their loggers, and the groups
and subscriptions to clients' metrics of which something is set. In v0 it listed the last only.

v1  any resource type
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.broker.resources import ResourceType
from ottla.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(ctx: Context, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    supported = set(ResourceType) if ctx.version >= 1 else {ResourceType.CLIENT_METRICS}
    wanted = set(request.resource_types) or supported
    if not wanted <= supported:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = ctx.broker.image
    brokers = [str(broker_id) for broker_id in sorted(image.brokers)]
    names = {
        ResourceType.BROKER_LOGGER: brokers,
        ResourceType.BROKER: brokers,
        ResourceType.TOPIC: sorted(image.topics),
        ResourceType.CLIENT_METRICS: sorted(image.client_metrics_configs),
        ResourceType.GROUP: sorted(image.group_configs),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in wanted
            for name in found
        ]
    )
