"""ConsumerGroupHeartbeat (key 68), v0 to v1 (KIP-848).

A member of a consumer group joins, reports its subscription and the partitions that it owns, gets
its assignment, and leaves. The response is sent when the change is stored; it never waits for other
members.

v1  clients generate their member ids (KIP-1082), subscription by regular expression
"""

from __future__ import annotations

from asyncio import Future

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(
    ctx: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | Future[ConsumerGroupHeartbeatResponse]:
    groups, answer = ctx.broker.groups, Promise[ConsumerGroupHeartbeatResponse]()
    outcome = groups.coordinator.consumer_group_heartbeat(
        request,
        version=ctx.version,
        client_id=ctx.client_id or "",
        client_host=f"/{ctx.session.client_host}",  # as Java prints an address without a host name
        token=answer,
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()
