"""Records of `__consumer_offsets` as transcripts show them."""

from __future__ import annotations

from collections.abc import Iterable

from ottla.coordinator.consumer import records
from ottla.coordinator.consumer.records import ConsumerGroupKey
from ottla.coordinator.records import (
    GroupMetadataKey,
    OffsetCommitKey,
    read_group_value,
    read_key,
    read_offset_value,
)
from ottla.wire.messages.consumer_group_heartbeat import TopicPartitions
from ottla.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment


def shown_record(key: bytes, value: bytes | None) -> str:
    match read_key(key):
        case OffsetCommitKey(group_id, topic, partition):
            if value is None:
                return f"- {group_id} {topic}-{partition}"
            return f"+ {group_id} {topic}-{partition} {read_offset_value(value).offset}"
        case GroupMetadataKey(group_id):
            if value is None:
                return f"- {group_id}"
            group = read_group_value(value)
            line = f"+ {group_id}: generation {group.generation}"
            if not group.members:
                return line + ", empty"
            line += f", {group.protocol}, leader {group.leader},"
            for member in group.members:
                line += f" {member.member_id}={shown_assignment(member.assignment)}"
            return line
        case ConsumerGroupKey() as consumer_key:
            return shown_consumer_record(consumer_key, value)
    raise AssertionError(key)


def shown_assignment(data: bytes) -> str:
    if data[:1] != b"\0":
        return data.decode()
    assignment, _ = ConsumerProtocolAssignment.read(data, 2, 0)
    return ",".join(
        f"{assigned.topic}-{index}"
        for assigned in assignment.assigned_partitions
        for index in assigned.partitions
    )


def shown_consumer_record(key: ConsumerGroupKey, value: bytes | None) -> str:
    what = TYPES[key.type]
    where = f"{key.group_id} {what} {key.name}".rstrip()
    if value is None:
        return f"- {where}"
    match key.type:
        case records.METADATA:
            return f"+ {where} {records.read_metadata(value).epoch}"
        case records.MEMBER:
            member = records.read_member(key.name, value)
            topics = ",".join(sorted(member.topics)) + (member.regex and f" /{member.regex}/")
            return f"+ {where}: {topics}" + (" classic" if member.classic else "")
        case records.TARGET:
            return f"+ {where} {records.read_target(value).epoch}"
        case records.TARGET_MEMBER:
            return f"+ {where}: " + (
                " ".join(named(records.read_target_member(value))) or "nothing"
            )
        case records.CURRENT:
            current = records.read_current(value)
            revoking = " ".join(named(current.revoking))
            line = f"+ {where}: {current.state.name} epoch {current.member_epoch}"
            line += f" owns {' '.join(named(current.assigned)) or 'nothing'}"
            return line + (f", gives up {revoking}" if revoking else "")
        case records.REGEX:
            return f"+ {where}: " + " ".join(sorted(records.read_regex(value).topics))
    raise AssertionError(key)


TYPES = {3: "epoch", 5: "member", 6: "target", 7: "target of", 8: "current", 16: "regex"}


def topic_id(name: str) -> bytes:
    """In a scenario, a topic's id contains its name."""
    return name.encode().ljust(16, b"_")


def named(partitions: Iterable[tuple[bytes, int]]) -> list[str]:
    return [f"{id_.rstrip(b'_').decode()}-{index}" for id_, index in sorted(partitions)]


def topic_partitions(names: list[str]) -> list[TopicPartitions]:
    found: dict[str, list[int]] = {}
    for name in names:
        topic, index = name.rsplit("-", 1)
        found.setdefault(topic, []).append(int(index))
    return [TopicPartitions(topic_id(topic), indexes) for topic, indexes in found.items()]
