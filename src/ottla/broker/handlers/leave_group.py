"""LeaveGroup (key 13), v0 to v5.

Takes members out of a group without waiting for their sessions to end.

v3  several members, also by group instance id (KIP-345)         v5  reason (KIP-800)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(
    ctx: Context, request: LeaveGroupRequest
) -> LeaveGroupResponse | Future[LeaveGroupResponse]:
    groups, answer = ctx.broker.groups, Answer[LeaveGroupResponse]()
    outcome = groups.coordinator.leave_group(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
