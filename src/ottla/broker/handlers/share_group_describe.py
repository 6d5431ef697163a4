"""ShareGroupDescribe (key 77), v1 (KIP-932).

Returns share groups with their members and the assignments of these.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.described_groups import redact_described_groups
from ottla.broker.request_context import RequestContext
from ottla.coordinator.share.group_requests import describe
from ottla.errors import ErrorCode
from ottla.wire.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(
    ctx: RequestContext, request: ShareGroupDescribeRequest
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    groups = describe(ctx.broker.groups.coordinator, request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    redact_described_groups(ctx, groups)
    response = ShareGroupDescribeResponse(groups=groups)
    return ctx.broker.groups.read_committed(response, request.group_ids)
