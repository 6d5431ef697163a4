"""ConsumerGroupHeartbeat (key 68), v0 to v1 (KIP-848).

A member of a consumer group joins, says what it subscribes to and what it holds, is told what it
may own, and leaves. Answered when what it changed is stored; it never waits for other members.

v1  clients make their member ids (KIP-1082), subscription by regular expression
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    ctx: Context, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]:
    groups, answer = ctx.broker.groups, Answer[ConsumerGroupHeartbeatResponse]()
    outcome = groups.coordinator.consumer_group_heartbeat(
        request,
        version=ctx.version,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",  # as Java writes an address without a name
        token=answer,
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
