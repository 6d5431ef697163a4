"""ShareAcknowledge (key 79), v1 to v2 (KIP-932).

Acknowledges records that a member has acquired: accept, release, reject, or a gap. The response is
sent when that is stored. Epoch -1 closes the session and releases the records that the member still
holds.

v2  renewal of locks (KIP-1222)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.leader_hints import MOVED, leader_endpoints, leader_hint
from ottla.broker.promise import all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.acknowledgement import acknowledge
from ottla.broker.share.partitions import Refusal
from ottla.broker.share.sessions import FINAL, NEW, ShareMember, ShareSession
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
    ctx: RequestContext, request: ShareAcknowledgeRequest
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
                partition.partition_index,
                partition.acknowledgement_batches,
                renews=request.is_renew_ack,
            )
            for topic in request.topics
            for partition in topic.partitions
        ]
    )
    if request.share_session_epoch == FINAL:
        released = ctx.broker.shares.release(session, ctx.now_ms)
        done = all_of([stored, released])
        return done.then(lambda results: _response(ctx, request, results[0])).result()
    return stored.then(lambda refusals: _response(ctx, request, refusals)).result()


def _response(
    ctx: RequestContext, request: ShareAcknowledgeRequest, refusals: list[Refusal]
) -> ShareAcknowledgeResponse:
    limits = ctx.broker.shares.settings(request.group_id or "").limits
    response = ShareAcknowledgeResponse(acquisition_lock_timeout=limits.lock_duration_ms)
    remaining_refusals = iter(refusals)
    for topic in request.topics:
        answered = ShareAcknowledgeTopicResponse(topic.topic_id)
        response.responses.append(answered)
        for partition in topic.partitions:
            answer = PartitionData(partition_index=partition.partition_index)
            refused = next(remaining_refusals)
            if refused is not None:
                answer.error_code = refused.code
                answer.error_message = refused.message or None
            answered.partitions.append(answer)
    _hint(ctx, response)
    return response


def _hint(ctx: RequestContext, response: ShareAcknowledgeResponse) -> None:
    """KIP-951: add the current leaders of partitions that this broker does not lead."""
    leaders = set()
    for topic in response.responses:
        name = ctx.broker.image.topic_name(topic.topic_id)
        for answer in topic.partitions:
            hint = None
            if answer.error_code in MOVED:
                hint = leader_hint(ctx.broker.image, name, answer.partition_index)
            if hint is not None:
                answer.current_leader = LeaderIdAndEpoch(*hint)
                leaders.add(hint.leader_id)
    nodes = leader_endpoints(ctx.broker.image, leaders, ctx.session.listener)
    response.node_endpoints = [NodeEndpoint(*node) for node in nodes]


def _session(ctx: RequestContext, request: ShareAcknowledgeRequest) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Group id and member id must not be empty.")
    if request.share_session_epoch == NEW:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    member = ShareMember(request.group_id, request.member_id)
    return ctx.broker.shares.sessions.resume(member, request.share_session_epoch)
