"""Consumer groups as ConsumerGroupDescribe shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.heartbeat import by_topic
from ottla.coordinator.consumer.member import ConsumerGroupMember, TopicIdPartition
from ottla.coordinator.group_type import TopicsImage
from ottla.errors import ErrorCode
from ottla.wire.messages.consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

_CLASSIC_TYPE: Final = 0
_CONSUMER_TYPE: Final = 1


def describe_consumer_group(
    group: ConsumerGroup, topics: TopicsImage, default_assignor: str
) -> DescribedGroup:
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=group.preferred_assignor or default_assignor,
        members=[_described_member(group, member, topics) for member in group.members.values()],
    )


def describe_group_error(group_id: str, code: ErrorCode, message: str | None) -> DescribedGroup:
    return DescribedGroup(error_code=code, error_message=message, group_id=group_id)


def _described_member(
    group: ConsumerGroup, member: ConsumerGroupMember, topics: TopicsImage
) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topics),
        subscribed_topic_regex=member.regex,
        assignment=_assignment([*member.assigned, *member.revoking], topics),
        target_assignment=_assignment(group.target_of(member.member_id), topics),
        member_type=_CONSUMER_TYPE if member.classic is None else _CLASSIC_TYPE,
    )


def _assignment(partitions: Iterable[TopicIdPartition], topics: TopicsImage) -> Assignment:
    """Deleted topics are left out: they have no name."""
    return Assignment(
        [
            TopicPartitions(topic_id, topics.names[topic_id], indexes)
            for topic_id, indexes in by_topic(partitions)
            if topic_id in topics.names
        ]
    )
