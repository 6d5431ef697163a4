"""Records of __consumer_offsets as JSON, with the field names of Kafka's message formats."""

from __future__ import annotations

import base64
from typing import Any

from ottla.coordinator.records import (
    CommittedOffset,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.errors import KafkaError
from ottla.wire.fields import ZERO_UUID, MalformedError
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription


def offset_commit_json(key: bytes | None, value: bytes | None) -> Any:
    """A group's offset for a partition; None for another type of record."""
    found = _key(key)
    if not isinstance(found, OffsetCommitKey):
        return None
    data = {"group": found.group_id, "topic": found.topic, "partition": found.partition}
    return {"key": {"type": 1, "data": data}, "value": _commit_value(value)}


def group_json(key: bytes | None, value: bytes | None, *, open_members: bool = False) -> Any:
    """A group's members; None for another type of record.

    Subscriptions and assignments are the clients' own formats; `open_members` decodes them.
    """
    found = _key(key)
    if not isinstance(found, GroupMetadataKey):
        return None
    shown = _group_value(value, open_members=open_members)
    return {"key": {"type": 2, "data": {"group": found.group_id}}, "value": shown}


def _key(data: bytes | None) -> OffsetCommitKey | GroupMetadataKey | None:
    try:
        found = None if data is None else read_key(data)
    except KafkaError:
        return None
    return found if isinstance(found, OffsetCommitKey | GroupMetadataKey) else None


def _commit_value(data: bytes | None) -> Any:
    if data is None:
        return None
    offset: CommittedOffset = read_offset_value(data)
    shown: dict[str, Any] = {
        "offset": offset.offset,
        "leaderEpoch": offset.leader_epoch,
        "metadata": offset.metadata,
        "commitTimestamp": offset.commit_timestamp_ms,
    }
    if offset.expire_timestamp_ms != -1:
        shown["expireTimestamp"] = offset.expire_timestamp_ms
    if offset.topic_id != ZERO_UUID:
        shown["topicId"] = base64.urlsafe_b64encode(offset.topic_id).decode().rstrip("=")
    return {"version": int.from_bytes(data[:2], "big"), "data": shown}


def _group_value(data: bytes | None, *, open_members: bool) -> Any:
    if data is None:
        return None
    group: GroupMetadataValue = read_group_value(data)
    opened = open_members and group.protocol_type == "consumer"
    members = [
        {
            "memberId": member.member_id,
            "groupInstanceId": member.group_instance_id,
            "clientId": member.client_id,
            "clientHost": member.client_host,
            "rebalanceTimeout": member.rebalance_timeout_ms,
            "sessionTimeout": member.session_timeout_ms,
            "subscription": (_subscription if opened else _base64)(member.subscription),
            "assignment": (_assignment if opened else _base64)(member.assignment),
        }
        for member in group.members
    ]
    shown = {
        "protocolType": group.protocol_type,
        "generation": group.generation,
        "protocol": group.protocol,
        "leader": group.leader,
        "currentStateTimestamp": group.state_timestamp_ms,
        "members": members,
    }
    return {"version": int.from_bytes(data[:2], "big"), "data": shown}


def _base64(data: bytes) -> Any:
    return base64.b64encode(data).decode()


def _subscription(data: bytes) -> Any:
    """A consumer's subscription: its version, then the fields of that version."""
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolSubscription.read(data, 2, min(version, 3))
    except MalformedError:
        return _base64(data)
    owned = [
        {"topic": topic.topic, "partitions": topic.partitions} for topic in found.owned_partitions
    ]
    shown = {
        "topics": found.topics,
        "userData": None if found.user_data is None else _base64(found.user_data),
        "ownedPartitions": owned,
        "generationId": found.generation_id,
        "rackId": found.rack_id,
    }
    return dict(list(shown.items())[: 2 + max(0, min(version, 3))])


def _assignment(data: bytes) -> Any:
    """A consumer's assignment; empty while it waits for one."""
    if not data:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolAssignment.read(data, 2, min(version, 3))
    except MalformedError:
        return _base64(data)
    parts = [
        {"topic": topic.topic, "partitions": topic.partitions}
        for topic in found.assigned_partitions
    ]
    user_data = None if found.user_data is None else _base64(found.user_data)
    return {"assignedPartitions": parts, "userData": user_data}
