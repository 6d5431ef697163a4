"""StreamsGroupDescribe (key 89), v0 (KIP-1071).

Returns streams groups with their topology, their members, and the tasks of these.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.described_groups import redact_described_streams_groups
from ottla.broker.request_context import RequestContext
from ottla.coordinator.streams.group_requests import describe
from ottla.errors import ErrorCode
from ottla.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(
    ctx: RequestContext, request: StreamsGroupDescribeRequest
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    groups = describe(ctx.broker.groups.coordinator, request.group_ids)
    if request.include_authorized_operations:
        for group in groups:
            if group.error_code == ErrorCode.NONE:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    redact_described_streams_groups(ctx, groups)
    response = StreamsGroupDescribeResponse(groups=groups)
    return ctx.broker.groups.read_committed(response, request.group_ids)
