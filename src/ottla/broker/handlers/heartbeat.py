"""Heartbeat (key 12), v0 to v4.

Keeps a member's session alive, and tells it when the group rebalances.

v3  static members (KIP-345)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(
    ctx: Context, request: HeartbeatRequest
) -> HeartbeatResponse | Future[HeartbeatResponse]:
    groups, answer = ctx.broker.groups, Answer[HeartbeatResponse]()
    outcome = groups.coordinator.heartbeat(request, token=answer, now_ms=ctx.now_ms)
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
