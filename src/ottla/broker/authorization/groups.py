"""Authorization of groups: of all four protocols, and of their coordinators."""

from __future__ import annotations

from typing import Any

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.authorization.authorization_steps import (
    DENIED_CODES,
    DENIED_MESSAGES,
    map_response,
    refusal,
)
from ottla.broker.described_groups import topology_topics
from ottla.broker.handlers.find_coordinator import GROUP, SEVERAL_KEYS_FROM, SHARE, TRANSACTION
from ottla.broker.request_context import Handler, RequestContext
from ottla.coordinator.responses import join_error
from ottla.errors import ErrorCode
from ottla.wire.messages import consumer_group_describe as consumer
from ottla.wire.messages import describe_groups as classic
from ottla.wire.messages import share_acknowledge, share_fetch
from ottla.wire.messages import share_group_describe as share
from ottla.wire.messages import streams_group_describe as streams
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.delete_groups import DeletableGroupResult
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponseTopic,
)
from ottla.wire.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequestTopic,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

O, R = AclOperation, AclResource  # noqa: E741
GROUP_DENIED = DENIED_CODES[R.GROUP]

KEYS = {
    GROUP: (O.DESCRIBE, R.GROUP),
    TRANSACTION: (O.DESCRIBE, R.TRANSACTIONAL_ID),
    SHARE: (O.CLUSTER_ACTION, R.CLUSTER),
}


def find_coordinator(handle: Handler, ctx: RequestContext, request: FindCoordinatorRequest) -> Any:
    """DESCRIBE on each group or transactional id; CLUSTER_ACTION for share coordinators."""
    needed = KEYS.get(request.key_type)
    if needed is None:
        return handle(ctx, request)
    operation, resource = needed
    several = ctx.version >= SEVERAL_KEYS_FROM
    keys = request.coordinator_keys if several else [request.key]

    def may(key: str) -> bool:
        if resource is R.CLUSTER:
            return ctx.may(operation, resource)
        return ctx.may(operation, resource, key)

    allowed = [key for key in keys if may(key)]
    if len(allowed) == len(keys):
        return handle(ctx, request)
    code = DENIED_CODES[resource]
    if not several:
        return FindCoordinatorResponse(
            error_code=code, error_message=DENIED_MESSAGES[code], node_id=-1, host="", port=-1
        )
    found = set(allowed)
    denied = [Coordinator(key, -1, "", -1, code) for key in keys if key not in found]
    if not allowed:
        return FindCoordinatorResponse(coordinators=denied)
    request.coordinator_keys = allowed

    def merged(response: FindCoordinatorResponse) -> FindCoordinatorResponse:
        response.coordinators += denied
        return response

    return map_response(handle(ctx, request), merged)


def join_refused(request: JoinGroupRequest, code: ErrorCode) -> JoinGroupResponse:
    return join_error(request.member_id, code)


def commit_refused(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[commit_denied(topic, code) for topic in request.topics])


def commit_denied(topic: OffsetCommitRequestTopic, code: ErrorCode) -> OffsetCommitResponseTopic:
    partitions = topic.partitions
    return OffsetCommitResponseTopic(
        topic.name,
        topic.topic_id,
        [
            OffsetCommitResponsePartition(partition.partition_index, code)
            for partition in partitions
        ],
    )


def offset_delete_denied(
    topic: OffsetDeleteRequestTopic, code: ErrorCode
) -> OffsetDeleteResponseTopic:
    partitions = topic.partitions
    return OffsetDeleteResponseTopic(
        topic.name,
        [
            OffsetDeleteResponsePartition(partition.partition_index, code)
            for partition in partitions
        ],
    )


def classic_denied(group_id: str, code: ErrorCode) -> classic.DescribedGroup:
    return classic.DescribedGroup(group_id=group_id, error_code=code)


def consumer_denied(group_id: str, code: ErrorCode) -> consumer.DescribedGroup:
    return consumer.DescribedGroup(group_id=group_id, error_code=code)


def share_denied(group_id: str, code: ErrorCode) -> share.DescribedGroup:
    return share.DescribedGroup(group_id=group_id, error_code=code)


def streams_denied(group_id: str, code: ErrorCode) -> streams.DescribedGroup:
    return streams.DescribedGroup(group_id=group_id, error_code=code)


def delete_group_denied(group_id: str, code: ErrorCode) -> DeletableGroupResult:
    return DeletableGroupResult(group_id, code)


def subscription(handle: Handler, ctx: RequestContext, request: Any) -> Any:
    """READ on the group, and DESCRIBE on all topics that the member subscribes to by name."""
    if not ctx.may(O.READ, R.GROUP, request.group_id):
        return refusal(ctx, GROUP_DENIED)
    names = request.subscribed_topic_names or ()
    if not all(ctx.may(O.DESCRIBE, R.TOPIC, name) for name in names):
        return refusal(ctx, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return handle(ctx, request)


def topology(handle: Handler, ctx: RequestContext, request: StreamsGroupHeartbeatRequest) -> Any:
    """READ on the group, and DESCRIBE on every topic of the member's topology.

    The handler checks CREATE for the internal topics that it creates.
    """
    if not ctx.may(O.READ, R.GROUP, request.group_id):
        return refusal(ctx, GROUP_DENIED)
    declared = request.topology.subtopologies if request.topology is not None else None
    for part in declared or ():
        if not all(ctx.may(O.DESCRIBE, R.TOPIC, name) for name in topology_topics(part)):
            return refusal(ctx, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return handle(ctx, request)


def share_fetch_denied(
    topic: share_fetch.FetchTopic, code: ErrorCode
) -> share_fetch.ShareFetchableTopicResponse:
    return share_fetch.ShareFetchableTopicResponse(
        topic.topic_id,
        [
            share_fetch.PartitionData(partition_index=partition.partition_index, error_code=code)
            for partition in topic.partitions
        ],
    )


def share_acknowledge_denied(
    topic: share_acknowledge.AcknowledgeTopic, code: ErrorCode
) -> share_acknowledge.ShareAcknowledgeTopicResponse:
    return share_acknowledge.ShareAcknowledgeTopicResponse(
        topic.topic_id,
        [
            share_acknowledge.PartitionData(
                partition_index=partition.partition_index, error_code=code
            )
            for partition in topic.partitions
        ],
    )


def alter_share_offsets_denied(
    topic: AlterShareGroupOffsetsRequestTopic, code: ErrorCode
) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition.partition_index, code, DENIED_MESSAGES[code]
            )
            for partition in topic.partitions
        ],
    )


def delete_share_offsets_denied(
    topic: DeleteShareGroupOffsetsRequestTopic, code: ErrorCode
) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, error_code=code, error_message=DENIED_MESSAGES[code]
    )
