"""ConsumerGroupDescribe (key 69), v0 to v1 (KIP-848).

Returns the state, epochs and members of consumer groups, with their current and their target
assignment.

v1  whether a member speaks the classic protocol
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.described_groups import redact_described_groups
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def handle(
    ctx: RequestContext, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    response = ctx.broker.groups.coordinator.consumer_group_describe(request)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    redact_described_groups(ctx, response.groups)
    return ctx.broker.groups.read_committed(response, request.group_ids)
