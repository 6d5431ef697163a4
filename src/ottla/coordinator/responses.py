"""Responses that more than one event sends, and the error response in place of each."""

from __future__ import annotations

from ottla.coordinator.classic.group import ClassicGroup
from ottla.errors import ErrorCode
from ottla.wire.fields import Message
from ottla.wire.messages.alter_share_group_offsets import AlterShareGroupOffsetsResponse
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeResponse
from ottla.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from ottla.wire.messages.delete_share_group_offsets import DeleteShareGroupOffsetsResponse
from ottla.wire.messages.describe_groups import DescribedGroup, DescribeGroupsResponse
from ottla.wire.messages.heartbeat import HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from ottla.wire.messages.leave_group import LeaveGroupResponse
from ottla.wire.messages.list_groups import ListGroupsResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import OffsetDeleteResponse
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from ottla.wire.messages.share_group_describe import ShareGroupDescribeResponse
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatResponse
from ottla.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from ottla.wire.messages.streams_group_describe import StreamsGroupDescribeResponse
from ottla.wire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def join_response(
    group: ClassicGroup, member_id: str, *, skip_assignment: bool = False
) -> JoinGroupResponse:
    """The current generation. The leader also gets the members, because it assigns to them."""
    members: list[JoinGroupResponseMember] = []
    if member_id == group.leader:
        protocol = group.protocol_name or ""
        members = [
            JoinGroupResponseMember(
                member.member_id, member.group_instance_id, member.metadata(protocol)
            )
            for member in group.members.values()
        ]
    return JoinGroupResponse(
        generation_id=group.generation,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader=group.leader or "",
        skip_assignment=skip_assignment,
        member_id=member_id,
        members=members,
    )


def join_error(member_id: str, code: ErrorCode) -> JoinGroupResponse:
    # Before v7 the protocol's name cannot be null, so it is empty in all versions.
    return JoinGroupResponse(error_code=code, protocol_name="", member_id=member_id)


def commit_error(topics: list[OffsetCommitRequestTopic], code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [OffsetCommitResponsePartition(p.partition_index, code) for p in topic.partitions],
            )
            for topic in topics
        ]
    )


def txn_commit_error(
    topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                topic.topic_id,
                [
                    TxnOffsetCommitResponsePartition(partition.partition_index, code)
                    for partition in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def fetch_error(
    group_id: str, topics: list[OffsetFetchRequestTopics] | None, code: ErrorCode, version: int
) -> OffsetFetchResponseGroup:
    """v1 has only errors of partitions; from v2 on the group has one."""
    if version >= 2:
        return OffsetFetchResponseGroup(group_id, error_code=code)
    return OffsetFetchResponseGroup(
        group_id,
        [
            OffsetFetchResponseTopics(
                topic.name,
                topic.topic_id,
                [
                    OffsetFetchResponsePartitions(index, -1, -1, "", code)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics or []
        ],
    )


def error_response(message: Message, code: ErrorCode) -> Message:
    """What to send instead of this response when the records before it are not stored."""
    match message:
        case JoinGroupResponse():
            return join_error("", code)
        case SyncGroupResponse():
            return SyncGroupResponse(error_code=code)
        case HeartbeatResponse():
            return HeartbeatResponse(error_code=code)
        case ConsumerGroupHeartbeatResponse():
            return ConsumerGroupHeartbeatResponse(error_code=code)
        case LeaveGroupResponse():
            return LeaveGroupResponse(error_code=code)
        case OffsetDeleteResponse():
            return OffsetDeleteResponse(error_code=code)
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            for topic in message.topics:
                for partition in topic.partitions:
                    partition.error_code = code
            return message
        case ShareGroupHeartbeatResponse():
            return ShareGroupHeartbeatResponse(error_code=code)
        case StreamsGroupHeartbeatResponse():
            return StreamsGroupHeartbeatResponse(error_code=code)
        case AlterShareGroupOffsetsResponse():
            return AlterShareGroupOffsetsResponse(error_code=code)
        case DeleteShareGroupOffsetsResponse():
            return DeleteShareGroupOffsetsResponse(error_code=code)
        case DeleteGroupsResponse():
            results = [DeletableGroupResult(result.group_id, code) for result in message.results]
            return DeleteGroupsResponse(results=results)
    return _read_error_response(message, code)


def _read_error_response(message: Message, code: ErrorCode) -> Message:
    match message:
        case OffsetFetchResponse():
            message.error_code = code
            message.groups = [
                OffsetFetchResponseGroup(group.group_id, error_code=code)
                for group in message.groups
            ]
            for topic in message.topics:  # before v2 a partition's is the only error
                for partition in topic.partitions:
                    partition.error_code = code
            return message
        case ListGroupsResponse():
            return ListGroupsResponse(error_code=code)
        case DescribeGroupsResponse():
            described = [
                DescribedGroup(error_code=code, group_id=group.group_id) for group in message.groups
            ]
            return DescribeGroupsResponse(groups=described)
        case ConsumerGroupDescribeResponse():
            consumers = [
                DescribedConsumerGroup(error_code=code, group_id=group.group_id)
                for group in message.groups
            ]
            return ConsumerGroupDescribeResponse(groups=consumers)
        case ShareGroupDescribeResponse():
            shares = [
                DescribedShareGroup(error_code=code, group_id=group.group_id)
                for group in message.groups
            ]
            return ShareGroupDescribeResponse(groups=shares)
        case StreamsGroupDescribeResponse():
            streams = [
                DescribedStreamsGroup(error_code=code, group_id=group.group_id)
                for group in message.groups
            ]
            return StreamsGroupDescribeResponse(groups=streams)
    raise AssertionError(f"{type(message).__name__} never waits for records")
