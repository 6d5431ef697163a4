"""ShareAcknowledge (key 79), v1 to v2 (KIP-932).

What a member says about records that it holds: accepted, released, rejected, not there. It is
stored before it is answered. The epoch -1 ends the session, and all that it still holds is
released.

v2  renewal of locks (KIP-1222)
"""

from __future__ import annotations

from ottla.broker.context import Context
from ottla.broker.share_acknowledging import acknowledge
from ottla.broker.share_sessions import FINAL, NEW, Member, ShareSession
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_acknowledge import (
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)


def handle(ctx: Context, request: ShareAcknowledgeRequest) -> ShareAcknowledgeResponse:
    try:
        session = _session(ctx, request)
    except KafkaError as error:
        return ShareAcknowledgeResponse(error_code=error.code, error_message=error.message or None)
    limits = ctx.broker.shares.settings(session.member.group_id).limits
    response = ShareAcknowledgeResponse(acquisition_lock_timeout=limits.lock_duration_ms)
    for topic in request.topics:
        answered = ShareAcknowledgeTopicResponse(topic.topic_id)
        response.responses.append(answered)
        for each in topic.partitions:
            refused = acknowledge(
                ctx,
                session.member,
                topic.topic_id,
                each.partition_index,
                each.acknowledgement_batches,
                renews=request.is_renew_ack,
            )
            answer = PartitionData(partition_index=each.partition_index)
            if refused is not None:
                answer.error_code = refused.code
                answer.error_message = refused.message or None
            answered.partitions.append(answer)
    if request.share_session_epoch == FINAL:
        ctx.broker.shares.release(session, ctx.now_ms)
    return response


def _session(ctx: Context, request: ShareAcknowledgeRequest) -> ShareSession:
    if not request.group_id or not request.member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "a member and its group have names")
    if request.share_session_epoch == NEW:
        raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    member = Member(request.group_id, request.member_id)
    return ctx.broker.shares.sessions.resume(member, request.share_session_epoch)
