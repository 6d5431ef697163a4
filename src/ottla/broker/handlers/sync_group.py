"""SyncGroup (key 14), v0 to v5.

Gives a member its assignment. Answered when the leader of the group has sent its own SyncGroup,
with everybody's assignments, and these are stored.

v3  static members (KIP-345)         v5  protocol type and name (KIP-559)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    ctx: Context, request: SyncGroupRequest
) -> SyncGroupResponse | Future[SyncGroupResponse]:
    groups, answer = ctx.broker.groups, Answer[SyncGroupResponse]()
    outcome = groups.coordinator.sync_group(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
