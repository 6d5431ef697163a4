"""ShareGroupDescribe (key 77), v1 (KIP-932).

Share groups with their members and what these read.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.context import Context
from ottla.broker.described_groups import hide_topics
from ottla.coordinator.share.coordination import describe
from ottla.errors import ErrorCode
from ottla.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    ctx: Context, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    groups = describe(ctx.broker.groups.coordinator, request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    hide_topics(ctx, groups)
    response = ShareGroupDescribeResponse(groups=groups)
    return ctx.broker.groups.read(response, request.group_ids)
