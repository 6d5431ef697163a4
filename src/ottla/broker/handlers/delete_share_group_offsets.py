"""DeleteShareGroupOffsets (key 92), v0 (KIP-932).

A share group without members forgets topics. Should it read them again, it begins where its
`share.auto.offset.reset` says.
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.coordinator.share.coordination import change, empty_share_group
from ottla.coordinator.share.group import ShareGroup
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


def handle(
    ctx: Context, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    groups = ctx.broker.groups
    try:
        group = empty_share_group(groups.coordinator, request.group_id)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = DeleteShareGroupOffsetsResponse()
    gone: list[bytes] = []
    for topic in request.topics:
        response.responses.append(_delete(ctx, group, topic.topic_name, gone))
    answer = Answer[DeleteShareGroupOffsetsResponse]()
    outcome = change(
        groups.coordinator,
        group,
        lambda turn: group.forget(gone, turn),
        answer=(answer, response),
        now_ms=ctx.now_ms,
    )
    groups.carry_out(outcome, ctx.now_ms)
    return answer.result()


def _delete(
    ctx: Context, group: ShareGroup, name: str, gone: list[bytes]
) -> DeleteShareGroupOffsetsResponseTopic:
    answer = DeleteShareGroupOffsetsResponseTopic(topic_name=name)
    topic = ctx.broker.image.topics.get(name)
    if topic is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = "This server does not host this topic-partition."
        return answer
    answer.topic_id = topic.id
    known = group.initialized.get(topic.id)
    if known is None:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        answer.error_message = "There is no offset information to delete."
        return answer
    try:
        ctx.broker.shares.delete_states(group.group_id, topic.id, known.partitions, ctx.now_ms)
    except KafkaError as error:
        answer.error_code = error.code
        answer.error_message = error.message or None
    else:
        gone.append(topic.id)
    return answer
