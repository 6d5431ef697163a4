"""DeleteShareGroupOffsets (key 92), v0 (KIP-932).

Deletes the offsets of topics in a share group that has no members. If the group reads such a topic
again, it starts where `share.auto.offset.reset` says.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.group_changes import record_group_change, set_error
from ottla.broker.share.partitions import Refusal
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_requests import empty_share_group
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)


def handle(
    ctx: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse | Awaitable[DeleteShareGroupOffsetsResponse]:
    groups = ctx.broker.groups
    try:
        group = empty_share_group(groups.coordinator, request.group_id)
    except KafkaError as error:
        return DeleteShareGroupOffsetsResponse(
            error_code=error.code, error_message=error.message or None
        )
    response = DeleteShareGroupOffsetsResponse()
    deleted: list[Promise[Refusal]] = []
    for topic in request.topics:
        response.responses.append(_delete(ctx, group, topic.topic_name, deleted))
    answer = Promise[DeleteShareGroupOffsetsResponse]()
    all_of(deleted).then(lambda _: _record(ctx, group, response, answer))
    return answer.result()


def _record(
    ctx: RequestContext,
    group: ShareGroup,
    response: DeleteShareGroupOffsetsResponse,
    answer: Promise[DeleteShareGroupOffsetsResponse],
) -> None:
    """Remove the topics whose states are all deleted from the group."""
    gone = [topic.topic_id for topic in response.responses if not topic.error_code]
    record_group_change(
        ctx,
        group,
        lambda event: group.forget(gone, event),
        answer,
        response=response,
        refused=lambda code: DeleteShareGroupOffsetsResponse(error_code=code),
    )


def _delete(
    ctx: RequestContext, group: ShareGroup, name: str, deleted: list[Promise[Refusal]]
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
    shares = ctx.broker.shares
    done = shares.delete_states(group.group_id, topic.id, known.partitions, ctx.now_ms)
    done.then(partial(set_error, answer))
    deleted.append(done)
    return answer
