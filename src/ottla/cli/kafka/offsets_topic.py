"""Records of __consumer_offsets as JSON, with the field names of Kafka's message formats."""

from __future__ import annotations

import base64
from typing import Any

from ottla.coordinator.keys import (
    CommittedOffset,
    GroupKey,
    GroupMetadata,
    OffsetKey,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.errors import KafkaError
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from ottla.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from ottla.wire.primitives import ZERO_UUID, MalformedError


def commit_json(key: bytes | None, value: bytes | None) -> Any:
    """A group's offset for a partition; None if the record is something else."""
    found = _key(key)
    if not isinstance(found, OffsetKey):
        return None
    data = {"group": found.group_id, "topic": found.topic, "partition": found.partition}
    return {"key": {"type": 1, "data": data}, "value": _commit_value(value)}


def group_json(key: bytes | None, value: bytes | None, *, open_members: bool = False) -> Any:
    """A group's members; None if the record is something else.

    What members subscribed to and were assigned is the clients' own; `open_members` reads it.
    """
    found = _key(key)
    if not isinstance(found, GroupKey):
        return None
    shown = _group_value(value, open_members=open_members)
    return {"key": {"type": 2, "data": {"group": found.group_id}}, "value": shown}


def _key(data: bytes | None) -> OffsetKey | GroupKey | None:
    try:
        found = None if data is None else read_key(data)
    except KafkaError:
        return None
    return found if isinstance(found, OffsetKey | GroupKey) else None


def _commit_value(data: bytes | None) -> Any:
    if data is None:
        return None
    found: CommittedOffset = read_offset_value(data)
    shown: dict[str, Any] = {
        "offset": found.offset,
        "leaderEpoch": found.leader_epoch,
        "metadata": found.metadata,
        "commitTimestamp": found.commit_timestamp_ms,
    }
    if found.expire_timestamp_ms != -1:
        shown["expireTimestamp"] = found.expire_timestamp_ms
    if found.topic_id != ZERO_UUID:
        shown["topicId"] = base64.urlsafe_b64encode(found.topic_id).decode().rstrip("=")
    return {"version": int.from_bytes(data[:2], "big"), "data": shown}


def _group_value(data: bytes | None, *, open_members: bool) -> Any:
    if data is None:
        return None
    found: GroupMetadata = read_group_value(data)
    opened = open_members and found.protocol_type == "consumer"
    members = [
        {
            "memberId": each.member_id,
            "groupInstanceId": each.group_instance_id,
            "clientId": each.client_id,
            "clientHost": each.client_host,
            "rebalanceTimeout": each.rebalance_timeout_ms,
            "sessionTimeout": each.session_timeout_ms,
            "subscription": (_subscription if opened else _base64)(each.subscription),
            "assignment": (_assignment if opened else _base64)(each.assignment),
        }
        for each in found.members
    ]
    shown = {
        "protocolType": found.protocol_type,
        "generation": found.generation,
        "protocol": found.protocol,
        "leader": found.leader,
        "currentStateTimestamp": found.state_timestamp_ms,
        "members": members,
    }
    return {"version": int.from_bytes(data[:2], "big"), "data": shown}


def _base64(data: bytes) -> Any:
    return base64.b64encode(data).decode()


def _subscription(data: bytes) -> Any:
    """What a consumer wants: its version, then the fields that this version has."""
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolSubscription.read(data, 2, min(version, 3))
    except MalformedError:
        return _base64(data)
    owned = [
        {"topic": each.topic, "partitions": each.partitions} for each in found.owned_partitions
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
    """What a consumer got; nothing at all while it waits."""
    if not data:
        return None
    version = int.from_bytes(data[:2], "big", signed=True)
    try:
        found, _ = ConsumerProtocolAssignment.read(data, 2, min(version, 3))
    except MalformedError:
        return _base64(data)
    parts = [
        {"topic": each.topic, "partitions": each.partitions} for each in found.assigned_partitions
    ]
    user_data = None if found.user_data is None else _base64(found.user_data)
    return {"assignedPartitions": parts, "userData": user_data}
