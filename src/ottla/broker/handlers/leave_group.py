"""LeaveGroup (key 13), v0 to v5.

Removes members from a group without waiting for their sessions to expire.

v3  several members, also by group instance id (KIP-345)         v5  reason (KIP-800)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    ctx: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | Future[LeaveGroupResponse]:
    groups, answer = ctx.broker.groups, Promise[LeaveGroupResponse]()
    outcome = groups.coordinator.leave_group(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
