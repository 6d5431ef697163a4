"""Descriptions of groups: KIP-848 consumer groups, classic groups and share groups.

A group's protocol is unknown before the first request. Brokers with KIP-848 get
ConsumerGroupDescribe first; a group that they do not have by it may be a classic one, for
DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import Node
from ottla.client.protocol.coordinators import KeyType, by_coordinator
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, with_retries
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import MalformedError
from ottla.wire.messages import consumer_group_describe as of_consumers
from ottla.wire.messages import describe_groups as of_classics
from ottla.wire.messages import share_group_describe as of_shares
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

CLASSIC_MEMBER: Final = 0  # in a consumer group, beside members of KIP-848
CONSUMERS: Final = ("consumer", "")  # protocols of classic groups whose members are consumers


@dataclass(slots=True, frozen=True)
class MemberDescription:
    """Only KIP-848 and KIP-932 have `epoch`, `target` and `subscription`.

    `upgraded` is False for a member of a KIP-848 group that uses the classic protocol.
    """

    id: str
    client_id: str
    host: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...]
    epoch: int | None = None
    target: tuple[TopicPartition, ...] | None = None
    upgraded: bool | None = None
    subscription: tuple[str, ...] = ()
    regex: str | None = None


@dataclass(slots=True, frozen=True)
class GroupDescription:
    name: str
    state: str
    type: str
    assignor: str
    coordinator: Node
    members: tuple[MemberDescription, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


GroupDescriptions = dict[str, GroupDescription | KafkaError]
_Describe = Callable[[AdminSession, Node, list[str]], GroupDescriptions]


def describe_consumer_groups(session: AdminSession, names: Iterable[str]) -> GroupDescriptions:
    return _describe(session, names, _consumers_then_classics)


def describe_share_groups(session: AdminSession, names: Iterable[str]) -> GroupDescriptions:
    return _describe(session, names, _shares)


def _describe(
    session: AdminSession, names: Iterable[str], describe: _Describe
) -> GroupDescriptions:
    wanted = list(dict.fromkeys(names))
    results: GroupDescriptions = {}
    for node_id, group in by_coordinator(session, KeyType.GROUP, wanted).items():
        node = session.connections.nodes()[node_id]

        def ask(node: Node = node, group: list[str] = group) -> GroupDescriptions:
            found = describe(session, node, group)
            for description in found.values():
                if (
                    isinstance(description, KafkaError)
                    and description.code in COORDINATOR_RETRIABLE
                ):
                    raise description
            return found

        results |= with_retries(session.timeout_s, ask)
    return {name: results[name] for name in wanted}


def _consumers_then_classics(
    session: AdminSession, node: Node, names: list[str]
) -> GroupDescriptions:
    found = _consumers(session, node, names)
    rest = [name for name in names if _may_be_classic(found.get(name))]
    classics = _classics(session, node, rest) if rest else {}
    for name, classic in classics.items():
        other = found.get(name)
        # "Group x is not a consumer group." says more than the classic API's answer.
        is_dead = isinstance(classic, KafkaError) or classic.state == "Dead"
        if is_dead and isinstance(other, KafkaError) and other.code != _UNKNOWN_API:
            continue
        found[name] = classic
    return found


_UNKNOWN_API: Final = ErrorCode.UNSUPPORTED_VERSION


def _may_be_classic(description: GroupDescription | KafkaError | None) -> bool:
    codes = (ErrorCode.GROUP_ID_NOT_FOUND, _UNKNOWN_API)
    return description is None or (
        isinstance(description, KafkaError) and description.code in codes
    )


def _consumers(session: AdminSession, node: Node, names: list[str]) -> GroupDescriptions:
    if ApiKey.CONSUMER_GROUP_DESCRIBE not in session.connections.connection(node.id).versions:
        return {}
    answer = session.connections.call(
        of_consumers.ConsumerGroupDescribeRequest(names),
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        of_consumers.ConsumerGroupDescribeResponse,
        node_id=node.id,
    )
    return {
        group.group_id: _failure(group.error_code, group.error_message)
        or GroupDescription(
            group.group_id,
            group.group_state,
            "Consumer",
            group.assignor_name,
            node,
            tuple(_consumer(member) for member in group.members),
            group.group_epoch,
            group.assignment_epoch,
        )
        for group in answer.groups
    }


def _consumer(member: of_consumers.Member) -> MemberDescription:
    assert member.assignment is not None
    assert member.target_assignment is not None
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        _partitions(member.assignment.topic_partitions),
        member.member_epoch,
        _partitions(member.target_assignment.topic_partitions),
        None if member.member_type < CLASSIC_MEMBER else member.member_type != CLASSIC_MEMBER,
        tuple(member.subscribed_topic_names),
        member.subscribed_topic_regex or None,
    )


def _classics(session: AdminSession, node: Node, names: list[str]) -> GroupDescriptions:
    answer = session.connections.call(
        of_classics.DescribeGroupsRequest(names),
        ApiKey.DESCRIBE_GROUPS,
        of_classics.DescribeGroupsResponse,
        node_id=node.id,
    )
    return {group.group_id: _classic_group(group, node) for group in answer.groups}


def _classic_group(group: of_classics.DescribedGroup, node: Node) -> GroupDescription | KafkaError:
    failure = _failure(group.error_code, group.error_message)
    if failure is not None:
        return failure
    if group.protocol_type not in CONSUMERS:
        kind = group.protocol_type
        message = f"GroupId {group.group_id} is not a consumer group ({kind})."
        return KafkaError(ErrorCode.INVALID_GROUP_ID, message)
    return GroupDescription(
        group.group_id,
        group.group_state,
        "Classic",
        group.protocol_data,
        node,
        tuple(
            MemberDescription(
                member.member_id,
                member.client_id,
                member.client_host,
                member.group_instance_id,
                _classic_assignment(member.member_assignment),
            )
            for member in group.members
        ),
    )


def _classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Clients write the assignment, brokers only keep it: unreadable bytes count as empty."""
    if len(data) < 2:
        return ()
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolAssignment.read(data, 2, max(0, min(version, 3)))
    except MalformedError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in found.assigned_partitions
            for partition in topic.partitions
        )
    )


def _shares(session: AdminSession, node: Node, names: list[str]) -> GroupDescriptions:
    answer = session.connections.call(
        of_shares.ShareGroupDescribeRequest(names),
        ApiKey.SHARE_GROUP_DESCRIBE,
        of_shares.ShareGroupDescribeResponse,
        node_id=node.id,
    )
    return {
        group.group_id: _failure(group.error_code, group.error_message)
        or GroupDescription(
            group.group_id,
            group.group_state,
            "Share",
            group.assignor_name,
            node,
            tuple(_sharer(member) for member in group.members),
            group.group_epoch,
            group.assignment_epoch,
        )
        for group in answer.groups
    }


def _sharer(member: of_shares.Member) -> MemberDescription:
    assert member.assignment is not None
    return MemberDescription(
        member.member_id,
        member.client_id,
        member.client_host,
        None,
        _partitions(member.assignment.topic_partitions),
        member.member_epoch,
        subscription=tuple(member.subscribed_topic_names),
    )


class _PartitionsOfTopic(Protocol):
    topic_name: str
    partitions: list[int]


def _partitions(topics: Iterable[_PartitionsOfTopic]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in topics
            for partition in topic.partitions
        )
    )


def _failure(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or "") if code else None
