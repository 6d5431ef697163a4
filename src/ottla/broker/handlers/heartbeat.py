"""Heartbeat (key 12), v0 to v4.

Keeps a member's session alive, and returns REBALANCE_IN_PROGRESS while the group rebalances.

v3  static members (KIP-345)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    ctx: RequestContext, request: HeartbeatRequest
) -> HeartbeatResponse | Future[HeartbeatResponse]:
    groups, answer = ctx.broker.groups, Promise[HeartbeatResponse]()
    outcome = groups.coordinator.heartbeat(request, token=answer, now_ms=ctx.now_ms)
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
