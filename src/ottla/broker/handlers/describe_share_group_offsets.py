"""DescribeShareGroupOffsets (key 90), v0 to v1 (KIP-932).

Returns the start offsets of share groups: all records before the start offset are completed. -1
means that the group has not started to read a partition.

v1  lag (KIP-1226): records that are not completed
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.coordinator_service import StateResult
from ottla.coordinator.share.group_requests import share_group
from ottla.coordinator.share.state_records import UNKNOWN, SharePartitionKey, SharePartitionState
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import ZERO_UUID
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


def handle(
    ctx: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse | Awaitable[DescribeShareGroupOffsetsResponse]:
    groups = all_of([_group(ctx, group) for group in request.groups])
    return groups.then(lambda found: DescribeShareGroupOffsetsResponse(groups=found)).result()


def _group(
    ctx: RequestContext, requested: DescribeShareGroupOffsetsRequestGroup
) -> Promise[DescribeShareGroupOffsetsResponseGroup]:
    try:
        if not ctx.may(AclOperation.DESCRIBE, AclResource.GROUP, requested.group_id):
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
        known = _known(ctx, requested.group_id)
    except KafkaError as error:
        refused = Promise[DescribeShareGroupOffsetsResponseGroup]()
        refused.resolve(
            DescribeShareGroupOffsetsResponseGroup(
                requested.group_id, error_code=error.code, error_message=error.message or None
            )
        )
        return refused
    wanted: Mapping[str, Sequence[int]] = {
        name: indexes for name, indexes in known.items() if _may_see(ctx, name, quiet=True)
    }
    if requested.topics is not None:
        wanted = {topic.topic_name: topic.partitions for topic in requested.topics}
    topics = [
        _topic(ctx, requested.group_id, name, indexes, known.get(name, ()))
        for name, indexes in wanted.items()
    ]
    return all_of(topics).then(
        lambda found: DescribeShareGroupOffsetsResponseGroup(requested.group_id, found)
    )


def _known(ctx: RequestContext, group_id: str) -> Mapping[str, Sequence[int]]:
    """The partitions that have a state. A group that does not exist has none."""
    try:
        group = share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    return {topic.name: topic.partitions for topic in group.initialized.values()}


def _topic(
    ctx: RequestContext, group_id: str, name: str, indexes: Sequence[int], known: Sequence[int]
) -> Promise[DescribeShareGroupOffsetsResponseTopic]:
    if not _may_see(ctx, name):
        return _denied(name, indexes)
    topic = ctx.broker.image.topics.get(name)
    topic_id = ZERO_UUID if topic is None else topic.id
    partitions = [
        _partition(ctx, name, SharePartitionKey(group_id, topic_id, index))
        if topic is not None and index in known
        else _unknown(index)
        for index in indexes
    ]
    return all_of(partitions).then(
        lambda found: DescribeShareGroupOffsetsResponseTopic(name, topic_id, found)
    )


def _may_see(ctx: RequestContext, topic: str, *, quiet: bool = False) -> bool:
    return ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic, quiet=quiet)


def _denied(name: str, indexes: Sequence[int]) -> Promise[DescribeShareGroupOffsetsResponseTopic]:
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    partitions = [
        Described(index, error_code=code, error_message="Topic authorization failed.")
        for index in indexes
    ]
    answer = Promise[DescribeShareGroupOffsetsResponseTopic]()
    answer.resolve(DescribeShareGroupOffsetsResponseTopic(name, ZERO_UUID, partitions))
    return answer


def _unknown(index: int) -> Promise[Described]:
    answer = Promise[Described]()
    answer.resolve(Described(index, start_offset=UNKNOWN))
    return answer


def _partition(ctx: RequestContext, name: str, key: SharePartitionKey) -> Promise[Described]:
    """Ask the share coordinator for the state, and the partition's leader for its end offset."""
    shares, described = ctx.broker.shares, Promise[Described]()
    shares.persister.summary(key, ctx.now_ms).then(
        lambda found: shares.ends.of(name, key.partition).then(
            lambda end: described.resolve(_described(key, found, end))
        )
    )
    return described


def _described(key: SharePartitionKey, state: StateResult, end: int | KafkaError) -> Described:
    for found in (state, end):
        if isinstance(found, KafkaError):
            return Described(
                partition_index=key.partition,
                start_offset=UNKNOWN,
                error_code=found.code,
                error_message=found.message or None,
            )
    assert isinstance(state, SharePartitionState)
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
