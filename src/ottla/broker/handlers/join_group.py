"""JoinGroup (key 11), v0 to v9.

Makes a client a member of a group. The response is sent when all members have (re)joined, at the
latest after the group's rebalance timeout; the leader's response lists the members.

v1  separate rebalance timeout       v4  MEMBER_ID_REQUIRED (KIP-394)
v5  static members (KIP-345)         v7  protocol type in the response (KIP-559)
v8  reason (KIP-800)                 v9  skip assignment (KIP-814)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse


def handle(
    ctx: RequestContext, request: JoinGroupRequest
) -> JoinGroupResponse | Future[JoinGroupResponse]:
    groups, answer = ctx.broker.groups, Promise[JoinGroupResponse]()
    outcome = groups.coordinator.join_group(
        request,
        version=ctx.version,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",  # as Java prints an address without a host name
        token=answer,
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
