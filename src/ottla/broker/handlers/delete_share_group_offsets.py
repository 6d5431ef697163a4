"""DeleteShareGroupOffsets (key 92), v0 (KIP-932).

A share group without members forgets topics. Should it read them again, it begins where its
`share.auto.offset.reset` says.
"""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.share_group_changes import record, refuse
from ottla.broker.shares import Refusal
from ottla.coordinator.share.coordination import empty_share_group
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
    deleted: list[Answer[Refusal]] = []
    for topic in request.topics:
        response.responses.append(_delete(ctx, group, topic.topic_name, deleted))
    answer = Answer[DeleteShareGroupOffsetsResponse]()
    all_of(deleted).when(lambda _: _record(ctx, group, response, answer))
    return answer.result()


def _record(
    ctx: Context,
    group: ShareGroup,
    response: DeleteShareGroupOffsetsResponse,
    answer: Answer[DeleteShareGroupOffsetsResponse],
) -> None:
    """The group forgets the topics of which all states are gone."""
    gone = [topic.topic_id for topic in response.responses if not topic.error_code]
    record(
        ctx,
        group,
        lambda turn: group.forget(gone, turn),
        answer,
        response=response,
        refused=lambda code: DeleteShareGroupOffsetsResponse(error_code=code),
    )


def _delete(
    ctx: Context, group: ShareGroup, name: str, deleted: list[Answer[Refusal]]
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
    done.when(partial(refuse, answer))
    deleted.append(done)
    return answer
