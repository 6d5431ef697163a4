"""DescribeCluster (key 60), v0 to v2.

Returns the cluster's id, its brokers with their endpoints for the listener of the request, and
which of them is the controller.

v1  endpoint type (KIP-919)    v2  fenced brokers (KIP-1073), of which there are none here
"""

from __future__ import annotations

from ottla.broker.authorized_operations import NO_AUTHORIZED_OPERATIONS
from ottla.broker.handlers.metadata import cluster_operations
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode
from ottla.wire.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

BROKERS = 1
CONTROLLERS = 2


def handle(ctx: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    if request.endpoint_type != BROKERS:
        return _wrong_endpoint(request.endpoint_type)
    image = ctx.broker.image
    brokers = [
        DescribeClusterBroker(broker_id=broker.id, host=host, port=port, rack=broker.rack)
        for broker, host, port in ctx.broker.endpoints(ctx.session.listener)
    ]
    reachable = any(broker.broker_id == image.controller_id for broker in brokers)
    requested = request.include_cluster_authorized_operations
    return DescribeClusterResponse(
        cluster_id=image.cluster_id,
        controller_id=image.controller_id if reachable else -1,
        brokers=brokers,
        cluster_authorized_operations=cluster_operations(ctx)
        if requested
        else NO_AUTHORIZED_OPERATIONS,
    )


def _wrong_endpoint(endpoint_type: int) -> DescribeClusterResponse:
    """Requests before v1 always ask for brokers."""
    if endpoint_type == CONTROLLERS:
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            error_message="The request was sent to an endpoint of type BROKER, but we wanted an"
            " endpoint of type CONTROLLER",
        )
    return DescribeClusterResponse(
        error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
        error_message=f"Unsupported endpoint type {endpoint_type}",
    )
