"""DescribeGroups (key 15), v0 to v6.

Returns the state, protocol and members of classic groups. A group that does not exist is Dead.

v3  authorized operations (KIP-430)      v4  static members (KIP-345)
v6  GROUP_ID_NOT_FOUND (KIP-1043)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclResource
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse


def handle(
    ctx: RequestContext, request: DescribeGroupsRequest
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    response = ctx.broker.groups.coordinator.describe_groups(request, version=ctx.version)
    if request.include_authorized_operations:
        for group in response.groups:
            if not group.error_code:
                group.authorized_operations = ctx.operations(AclResource.GROUP, group.group_id)
    return ctx.broker.groups.read_committed(response, request.groups)
