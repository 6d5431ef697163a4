"""JoinGroup (key 11), v0 to v9.

Makes a client a member of a group. Answered when all members have (re)joined, at the latest after
the group's rebalance timeout; the leader is told who the members are.

v1  rebalance timeout of its own     v4  MEMBER_ID_REQUIRED (KIP-394)
v5  static members (KIP-345)         v7  protocol type in the response (KIP-559)
v8  reason (KIP-800)                 v9  skip assignment (KIP-814)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(
    ctx: Context, request: JoinGroupRequest
) -> JoinGroupResponse | Future[JoinGroupResponse]:
    groups, answer = ctx.broker.groups, Answer[JoinGroupResponse]()
    outcome = groups.coordinator.join_group(
        request,
        version=ctx.version,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",  # as Java writes an address without a name
        token=answer,
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
