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
from ottla.wire.primitives import ZERO_UUID


def commit_json(key: bytes | None, value: bytes | None) -> Any:
    """A group's offset for a partition; None if the record is something else."""
    found = _key(key)
    if not isinstance(found, OffsetKey):
        return None
    data = {"group": found.group_id, "topic": found.topic, "partition": found.partition}
    return {"key": {"type": 1, "data": data}, "value": _commit_value(value)}


def group_json(key: bytes | None, value: bytes | None) -> Any:
    """A group's members; None if the record is something else."""
    found = _key(key)
    if not isinstance(found, GroupKey):
        return None
    return {"key": {"type": 2, "data": {"group": found.group_id}}, "value": _group_value(value)}


def _key(data: bytes | None) -> OffsetKey | GroupKey | None:
    try:
        return None if data is None else read_key(data)
    except KafkaError:
        return None


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


def _group_value(data: bytes | None) -> Any:
    if data is None:
        return None
    found: GroupMetadata = read_group_value(data)
    members = [
        {
            "memberId": each.member_id,
            "groupInstanceId": each.group_instance_id,
            "clientId": each.client_id,
            "clientHost": each.client_host,
            "rebalanceTimeout": each.rebalance_timeout_ms,
            "sessionTimeout": each.session_timeout_ms,
            "subscription": base64.b64encode(each.subscription).decode(),
            "assignment": base64.b64encode(each.assignment).decode(),
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
