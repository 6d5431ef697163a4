"""ShareAcknowledge (key 79), v1 to v2 (KIP-932).

What a member says about records that it holds: accepted, released, rejected, not there. It is
stored before it is answered. The epoch -1 ends the session, and all that it still holds is
released.

v2  renewal of locks (KIP-1222)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import all_of, then
from ottla.broker.leader_hints import MOVED, leader_of, nodes_of
from ottla.broker.share_acknowledging import acknowledge
from ottla.broker.share_sessions import FINAL, NEW, Member, ShareSession
from ottla.broker.shares import Refusal
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(
    ctx: Context, request: ShareAcknowledgeRequest
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    try:
        session = _session(ctx, request)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message or None)
    stored = all_of(
        [
            acknowledge(
                ctx,
                session.member,
                topic.topic_id,
                each.partition_index,
                each.acknowledgement_batches,
                renews=request.is_renew_ack,
            )
            for topic in request.topics
            for each in topic.partitions
        ]
    )
    if request.share_session_epoch == FINAL:
        released = ctx.broker.shares.release(session, ctx.now_ms)
        done = all_of([stored, released])
        return then(done.result(), lambda both: _response(ctx, request, both[0]))
    return then(stored.result(), lambda refusals: _response(ctx, request, refusals))


def _response(
    ctx: Context, request: ShareAcknowledgeRequest, refusals: list[Refusal]
) -> ShareAcknowledgeResponse:
    limits = ctx.broker.shares.settings(request.group_id or "").limits
    response = ShareAcknowledgeResponse(acquisition_lock_timeout=limits.lock_duration_ms)
    told = iter(refusals)
    for topic in request.topics:
        answered = ShareAcknowledgeTopicResponse(topic.topic_id)
        response.responses.append(answered)
        for each in topic.partitions:
            answer = PartitionData(partition_index=each.partition_index)
            refused = next(told)
            if refused is not None:
                answer.error_code = refused.code
                answer.error_message = refused.message or None
            answered.partitions.append(answer)
    _hint(ctx, response)
    return response


def _hint(ctx: Context, response: ShareAcknowledgeResponse) -> None:
    """KIP-951: with the leaders of partitions that are not ours."""
    leaders = set()
    for topic in response.responses:
        name = ctx.broker.image.topic_name(topic.topic_id)
        for answer in topic.partitions:
            hint = None
            if answer.error_code in MOVED:
                hint = leader_of(ctx.broker, name, answer.partition_index)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(*hint)
                leaders.add(hint.leader_id)
    nodes = nodes_of(ctx.broker, leaders, ctx.session.listener)
    response.node_endpoints = [NodeEndpoint(*node) for node in nodes]


def _session(ctx: Context, request: ShareAcknowledgeRequest) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a member and its group have names")
    if request.share_session_epoch == NEW:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    member = Member(request.group_id, request.member_id)
    return ctx.broker.shares.sessions.resume(member, request.share_session_epoch)
