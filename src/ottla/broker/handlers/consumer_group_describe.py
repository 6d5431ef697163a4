"""ConsumerGroupDescribe (key 69), v0 to v1 (KIP-848).

State, epochs and members of consumer groups: what they own, and what they are to own.

v1  whether a member speaks the classic protocol
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.context import Context
from ottla.broker.described_groups import hide_topics
from ottla.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)


def handle(
    ctx: Context, request: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    response = ctx.broker.groups.coordinator.consumer_group_describe(request)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    hide_topics(ctx, response.groups)
    return ctx.broker.groups.read(response, request.group_ids)
