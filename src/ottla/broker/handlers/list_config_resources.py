"""ListConfigResources (key 74), v0 to v1 (KIP-714, KIP-1142).

Lists the resources that DescribeConfigs can describe: topics, brokers and their loggers, and the
groups and client metrics subscriptions that have configs. v0 lists the last only.

v1  any resource type
"""

from __future__ import annotations

from ottla.broker.request_context import RequestContext
from ottla.broker.resources import ConfigResourceType
from ottla.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)


def handle(ctx: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    supported = set(ConfigResourceType) if ctx.version >= 1 else {ConfigResourceType.CLIENT_METRICS}
    wanted = set(request.resource_types) or supported
    if not wanted <= supported:
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    image = ctx.broker.image
    brokers = [str(broker_id) for broker_id in sorted(image.brokers)]
    names = {
        ConfigResourceType.BROKER_LOGGER: brokers,
        ConfigResourceType.BROKER: brokers,
        ConfigResourceType.TOPIC: sorted(image.topics),
        ConfigResourceType.CLIENT_METRICS: sorted(image.client_metrics_configs),
        ConfigResourceType.GROUP: sorted(image.group_configs),
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, found in names.items()
            if kind in wanted
            for name in found
        ]
    )
