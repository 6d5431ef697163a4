"""Descriptions of groups: of KIP-848, classic ones, and share groups.

Nobody knows a group's protocol before asking. A broker of KIP-848 is asked ConsumerGroupDescribe
first; what it calls no such group may be a classic one, which DescribeGroups knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from ottla.client.protocol.connection import Node
from ottla.client.protocol.coordinators import KeyType, by_coordinator
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, patiently
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages import consumer_group_describe as of_consumers
from ottla.wire.messages import describe_groups as of_classics
from ottla.wire.messages import share_group_describe as of_shares
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.primitives import MalformedError

CLASSIC_MEMBER: Final = 0  # of a consumer group, beside those of KIP-848
CONSUMERS: Final = ("consumer", "")  # the protocols of classic groups that consumers are in


@dataclass(slots=True, frozen=True)
class Member:
    """`epoch`, `target` and `subscription` are known of KIP-848 and KIP-932 alone.

    `upgraded` is False for a member of the classic protocol in a group of KIP-848.
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
    members: tuple[Member, ...]
    epoch: int | None = None
    assignment_epoch: int | None = None


Described = dict[str, GroupDescription | KafkaError]
_Describe = Callable[[Session, Node, list[str]], Described]


def describe_consumer_groups(session: Session, names: Iterable[str]) -> Described:
    return _describe(session, names, _consumers_then_classics)


def describe_share_groups(session: Session, names: Iterable[str]) -> Described:
    return _describe(session, names, _shares)


def _describe(session: Session, names: Iterable[str], describe: _Describe) -> Described:
    wanted = list(dict.fromkeys(names))
    results: Described = {}
    for node_id, group in by_coordinator(session, KeyType.GROUP, wanted).items():
        node = session.lines.nodes()[node_id]

        def ask(node: Node = node, group: list[str] = group) -> Described:
            found = describe(session, node, group)
            for each in found.values():
                if isinstance(each, KafkaError) and each.code in COORDINATOR_RETRIABLE:
                    raise each
            return found

        results |= patiently(session.timeout_s, ask)
    return {name: results[name] for name in wanted}


def _consumers_then_classics(session: Session, node: Node, names: list[str]) -> Described:
    found = _consumers(session, node, names)
    rest = [name for name in names if _may_be_classic(found.get(name))]
    classics = _classics(session, node, rest) if rest else {}
    for name, classic in classics.items():
        other = found.get(name)
        # "Group x is not a consumer group." says more than that there is no classic one.
        is_dead = isinstance(classic, KafkaError) or classic.state == "Dead"
        if is_dead and isinstance(other, KafkaError) and other.code != _UNKNOWN_API:
            continue
        found[name] = classic
    return found


_UNKNOWN_API: Final = ErrorCode.UNSUPPORTED_VERSION


def _may_be_classic(found: GroupDescription | KafkaError | None) -> bool:
    codes = (ErrorCode.GROUP_ID_NOT_FOUND, _UNKNOWN_API)
    return found is None or (isinstance(found, KafkaError) and found.code in codes)


def _consumers(session: Session, node: Node, names: list[str]) -> Described:
    if ApiKey.CONSUMER_GROUP_DESCRIBE not in session.lines.line(node.id).versions:
        return {}
    answer = session.lines.call(
        of_consumers.ConsumerGroupDescribeRequest(names),
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        of_consumers.ConsumerGroupDescribeResponse,
        node_id=node.id,
    )
    return {
        each.group_id: _failure(each.error_code, each.error_message)
        or GroupDescription(
            each.group_id,
            each.group_state,
            "Consumer",
            each.assignor_name,
            node,
            tuple(_consumer(member) for member in each.members),
            each.group_epoch,
            each.assignment_epoch,
        )
        for each in answer.groups
    }


def _consumer(found: of_consumers.Member) -> Member:
    assert found.assignment is not None
    assert found.target_assignment is not None
    return Member(
        found.member_id,
        found.client_id,
        found.client_host,
        found.instance_id,
        _partitions(found.assignment.topic_partitions),
        found.member_epoch,
        _partitions(found.target_assignment.topic_partitions),
        None if found.member_type < CLASSIC_MEMBER else found.member_type != CLASSIC_MEMBER,
        tuple(found.subscribed_topic_names),
        found.subscribed_topic_regex or None,
    )


def _classics(session: Session, node: Node, names: list[str]) -> Described:
    answer = session.lines.call(
        of_classics.DescribeGroupsRequest(names),
        ApiKey.DESCRIBE_GROUPS,
        of_classics.DescribeGroupsResponse,
        node_id=node.id,
    )
    return {each.group_id: _classic_group(each, node) for each in answer.groups}


def _classic_group(found: of_classics.DescribedGroup, node: Node) -> GroupDescription | KafkaError:
    failure = _failure(found.error_code, found.error_message)
    if failure is not None:
        return failure
    if found.protocol_type not in CONSUMERS:
        kind = found.protocol_type
        message = f"GroupId {found.group_id} is not a consumer group ({kind})."
        return KafkaError(ErrorCode.INVALID_GROUP_ID, message)
    return GroupDescription(
        found.group_id,
        found.group_state,
        "Classic",
        found.protocol_data,
        node,
        tuple(
            Member(
                each.member_id,
                each.client_id,
                each.client_host,
                each.group_instance_id,
                _classic_assignment(each.member_assignment),
            )
            for each in found.members
        ),
    )


def _classic_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Clients write it, brokers keep it: what can't be read is none."""
    if len(data) < 2:
        return ()
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolAssignment.read(data, 2, max(0, min(version, 3)))
    except MalformedError:
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, each)
            for topic in found.assigned_partitions
            for each in topic.partitions
        )
    )


def _shares(session: Session, node: Node, names: list[str]) -> Described:
    answer = session.lines.call(
        of_shares.ShareGroupDescribeRequest(names),
        ApiKey.SHARE_GROUP_DESCRIBE,
        of_shares.ShareGroupDescribeResponse,
        node_id=node.id,
    )
    return {
        each.group_id: _failure(each.error_code, each.error_message)
        or GroupDescription(
            each.group_id,
            each.group_state,
            "Share",
            each.assignor_name,
            node,
            tuple(_sharer(member) for member in each.members),
            each.group_epoch,
            each.assignment_epoch,
        )
        for each in answer.groups
    }


def _sharer(found: of_shares.Member) -> Member:
    assert found.assignment is not None
    return Member(
        found.member_id,
        found.client_id,
        found.client_host,
        None,
        _partitions(found.assignment.topic_partitions),
        found.member_epoch,
        subscription=tuple(found.subscribed_topic_names),
    )


class _Topic(Protocol):
    topic_name: str
    partitions: list[int]


def _partitions(topics: Iterable[_Topic]) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, each) for topic in topics for each in topic.partitions
        )
    )


def _failure(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or "") if code else None
