"""ListGroups (key 16), v0 to v5.

Lists the groups that this broker coordinates.

v4  states, and a filter by them (KIP-518)      v5  types, and a filter by them (KIP-848)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(
    ctx: RequestContext, request: ListGroupsRequest
) -> ListGroupsResponse | Awaitable[ListGroupsResponse]:
    groups = ctx.broker.groups
    response = groups.coordinator.list_groups(request)
    if not ctx.may(AclOperation.DESCRIBE, AclResource.CLUSTER, quiet=True):
        response.groups = [
            group
            for group in response.groups
            if ctx.may(AclOperation.DESCRIBE, AclResource.GROUP, group.group_id, quiet=True)
        ]
    return groups.read_committed(response, [group.group_id for group in response.groups])
