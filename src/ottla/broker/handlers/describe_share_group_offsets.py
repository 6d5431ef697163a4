"""DescribeShareGroupOffsets (key 90), v0 to v1 (KIP-932).

Where share groups are in the partitions that they read: everything before the start offset is
done. -1: a group that has not begun with a partition.

v1  lag (KIP-1226): records that are not done with
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of, then
from ottla.broker.share_states import Found
from ottla.coordinator.share.coordination import share_group
from ottla.coordinator.share.records import UNKNOWN, ShareState, StateKey
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponsePartition as Described,
)
from ottla.wire.primitives import ZERO_UUID


def handle(
    ctx: Context, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Awaitable[DescribeShareGroupOffsetsResponse]:
    groups = all_of([_group(ctx, each) for each in request.groups])
    return then(groups.result(), lambda found: DescribeShareGroupOffsetsResponse(groups=found))


def _group(
    ctx: Context, asked: DescribeShareGroupOffsetsRequestGroup
) -> Answer[DescribeShareGroupOffsetsResponseGroup]:
    try:
        if not ctx.may(AclOperation.DESCRIBE, AclResource.GROUP, asked.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
        known = _known(ctx, asked.group_id)
    except KafkaError as error:
        refused = Answer[DescribeShareGroupOffsetsResponseGroup]()
        refused.give(
            DescribeShareGroupOffsetsResponseGroup(
                asked.group_id, error_code=error.code, error_message=error.message or None
            )
        )
        return refused
    wanted: Mapping[str, Sequence[int]] = {
        name: indexes for name, indexes in known.items() if _may_see(ctx, name, quiet=True)
    }
    if asked.topics is not None:
        wanted = {topic.topic_name: topic.partitions for topic in asked.topics}
    topics = [
        _topic(ctx, asked.group_id, name, indexes, known.get(name, ()))
        for name, indexes in wanted.items()
    ]
    return all_of(topics).map(
        lambda found: DescribeShareGroupOffsetsResponseGroup(asked.group_id, found)
    )


def _known(ctx: Context, group_id: str) -> Mapping[str, Sequence[int]]:
    """The partitions of which there are states. A group that nobody knows has none."""
    try:
        group = share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {topic.name: topic.partitions for topic in group.initialized.values()}


def _topic(
    ctx: Context, group_id: str, name: str, indexes: Sequence[int], known: Sequence[int]
) -> Answer[DescribeShareGroupOffsetsResponseTopic]:
    if not _may_see(ctx, name):
        return _denied(name, indexes)
    topic = ctx.broker.image.topics.get(name)
    topic_id = ZERO_UUID if topic is None else topic.id
    partitions = [
        _partition(ctx, name, StateKey(group_id, topic_id, index))
        if topic is not None and index in known
        else _unknown(index)
        for index in indexes
    ]
    return all_of(partitions).map(
        lambda found: DescribeShareGroupOffsetsResponseTopic(name, topic_id, found)
    )


def _may_see(ctx: Context, topic: str, *, quiet: bool = False) -> bool:
    return ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic, quiet=quiet)


def _denied(name: str, indexes: Sequence[int]) -> Answer[DescribeShareGroupOffsetsResponseTopic]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = [
        Described(index, error_code=code, error_message="Topic authorization failed.")
        for index in indexes
    ]
    answer = Answer[DescribeShareGroupOffsetsResponseTopic]()
    answer.give(DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, partitions))
    return answer


def _unknown(index: int) -> Answer[Described]:
    answer = Answer[Described]()
    answer.give(Described(index, start_offset=UNKNOWN))
    return answer


def _partition(ctx: Context, name: str, key: StateKey) -> Answer[Described]:
    """Its state from the coordinator of that, and its end from its leader."""
    shares, described = ctx.broker.shares, Answer[Described]()
    shares.persister.summary(key, ctx.now_ms).when(
        lambda found: shares.ends.of(name, key.partition).when(
            lambda end: described.give(_described(key, found, end))
        )
    )
    return described


def _described(key: StateKey, state: Found, end: int | KafkaError) -> Described:
    for each in (state, end):
        if isinstance(each, KafkaError):
            return Described(
                partition_index=key.partition,
                start_offset=UNKNOWN,
                error_code=each.code,
                error_message=each.message or None,
            )
    assert isinstance(state, ShareState)
    assert isinstance(end, int)
    lag = -1
    if state.start_offset != UNKNOWN and state.delivery_complete_count != UNKNOWN:
        lag = max(end - state.start_offset - state.delivery_complete_count, 0)
    return Described(
        partition_index=key.partition,
        start_offset=state.start_offset,
        leader_epoch=state.leader_epoch,
        lag=lag,
    )
