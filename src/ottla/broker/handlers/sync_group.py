"""SyncGroup (key 14), v0 to v5.

Gives a member its assignment. The response is sent when the group's leader has sent its SyncGroup
with all assignments, and these are stored.

v3  static members (KIP-345)         v5  protocol type and name (KIP-559)
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(
    ctx: RequestContext, request: SyncGroupRequest
) -> SyncGroupResponse | Future[SyncGroupResponse]:
    groups, answer = ctx.broker.groups, Promise[SyncGroupResponse]()
    outcome = groups.coordinator.sync_group(
        request, version=ctx.version, token=answer, now_ms=ctx.now_ms
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
