"""ListGroups (key 16), v0 to v5.

The groups that this broker coordinates.

v4  states, and a filter by them (KIP-518)      v5  types, and a filter by them (KIP-848)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def handle(ctx: Context, request: ListGroupsRequest) -> ListGroupsResponse:
    return ctx.broker.groups.coordinator.list_groups(request)
