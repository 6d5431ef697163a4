"""The offsets that groups have committed: kept, given out, deleted, and forgotten in time.

Whether a transaction is open on an offset (`require_stable`, KIP-447) comes with transactions;
until then every committed offset is stable.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.coordinator.group import GroupConfig
from ottla.coordinator.keys import (
    CommittedOffset,
    is_recordable,
    write_offset_key,
    write_offset_value,
)
from ottla.coordinator.kinds import AnyGroup
from ottla.coordinator.outcome import Turn
from ottla.errors import ErrorCode
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from ottla.wire.primitives import ZERO_UUID

ByTopic = dict[str, dict[int, CommittedOffset]]


class Offsets:
    """By group, topic and partition; a group or topic without offsets is not listed."""

    __slots__ = ("by_group",)

    def __init__(self) -> None:
        self.by_group: dict[str, ByTopic] = {}

    def get(self, group_id: str, topic: str, partition: int) -> CommittedOffset | None:
        return self.by_group.get(group_id, {}).get(topic, {}).get(partition)

    def put(self, group_id: str, topic: str, partition: int, value: CommittedOffset) -> None:
        self.by_group.setdefault(group_id, {}).setdefault(topic, {})[partition] = value

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        topics = self.by_group.get(group_id, {})
        partitions = topics.get(topic, {})
        partitions.pop(partition, None)
        if not partitions:
            topics.pop(topic, None)
        if not topics:
            self.by_group.pop(group_id, None)

    def of_group(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        for topic, partitions in self.by_group.get(group_id, {}).items():
            for partition, value in partitions.items():
                yield topic, partition, value

    # -- changes: each is recorded, and can be taken back

    def write(
        self, group_id: str, topic: str, partition: int, value: CommittedOffset, turn: Turn
    ) -> None:
        turn.record(write_offset_key(group_id, topic, partition), write_offset_value(value))
        self._keep(group_id, topic, partition, turn)
        self.put(group_id, topic, partition, value)

    def erase(self, group_id: str, topic: str, partition: int, turn: Turn) -> None:
        turn.record(write_offset_key(group_id, topic, partition), None)
        self._keep(group_id, topic, partition, turn)
        self.remove(group_id, topic, partition)

    def _keep(self, group_id: str, topic: str, partition: int, turn: Turn) -> None:
        before = self.get(group_id, topic, partition)
        if before is None:
            turn.undo(lambda undo, code: self.remove(group_id, topic, partition))
        else:
            turn.undo(lambda undo, code: self.put(group_id, topic, partition, before))

    # -- what the APIs ask

    def commit(self, request: OffsetCommitRequest, turn: Turn) -> OffsetCommitResponse:
        """Keep what a request commits, once the group has let it pass."""
        group_id = request.group_id
        expire_ms = -1
        if request.retention_time >= 0:  # v2 to v4: the client knows better than the broker
            expire_ms = turn.now_ms + request.retention_time
        size_max = turn.config.offset_metadata_bytes_max
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                code = ErrorCode.NONE
                metadata = partition.committed_metadata or ""
                if len(metadata) > size_max or not is_recordable(metadata):
                    code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    value = _committed(partition, turn.now_ms, expire_ms, topic.topic_id)
                    self.write(group_id, topic.name, partition.partition_index, value, turn)
                answers.append(OffsetCommitResponsePartition(partition.partition_index, code))
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
        return response

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics]
    ) -> list[OffsetFetchResponseTopics]:
        """What is not there is -1, without an error. So is an offset of a topic's former life."""
        committed = self.by_group.get(group_id, {})
        answers: list[OffsetFetchResponseTopics] = []
        for topic in topics:
            of_topic = committed.get(topic.name, {})
            answer = OffsetFetchResponseTopics(topic.name, topic.topic_id)
            for index in topic.partition_indexes:
                value = of_topic.get(index)
                if value is None or not _same_topic(value.topic_id, topic.topic_id):
                    value = _NOTHING
                answer.partitions.append(_fetched(index, value))
            answers.append(answer)
        return answers

    def fetch_all(self, group_id: str) -> list[OffsetFetchResponseTopics]:
        return [
            OffsetFetchResponseTopics(
                topic,
                partitions=[_fetched(index, value) for index, value in partitions.items()],
            )
            for topic, partitions in self.by_group.get(group_id, {}).items()
        ]

    def delete(
        self, group: AnyGroup, request: OffsetDeleteRequest, turn: Turn
    ) -> OffsetDeleteResponse:
        """Offsets of topics that the group consumes at the moment stay (KIP-496)."""
        response = OffsetDeleteResponse()
        for topic in request.topics:
            code = ErrorCode.NONE
            if group.subscribes(topic.name):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            answer = OffsetDeleteResponseTopic(topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                known = self.get(group.group_id, topic.name, index) is not None
                if known and code is ErrorCode.NONE:
                    self.erase(group.group_id, topic.name, index, turn)
                answer.partitions.append(OffsetDeleteResponsePartition(index, code))
            response.topics.append(answer)
        return response

    def forget_topic(self, topic: str, topic_id: bytes, turn: Turn) -> None:
        """A topic was deleted. Offsets that belong to a later topic of the same name stay."""
        for group_id, topics in list(self.by_group.items()):
            for partition, value in list(topics.get(topic, {}).items()):
                if _same_topic(value.topic_id, topic_id):
                    self.erase(group_id, topic, partition, turn)

    def expired(
        self, group: AnyGroup, now_ms: int, config: GroupConfig
    ) -> Iterator[tuple[str, int]]:
        """Offsets of this group that nobody has asked to keep for the retention time."""
        for topic, partition, value in self.of_group(group.group_id):
            if group.subscribes(topic):
                continue
            from_ms = group.expiry_from_ms(value.commit_timestamp_ms)
            if from_ms is None:
                return
            due_ms = value.expire_timestamp_ms
            if due_ms < 0:
                due_ms = from_ms + config.offsets_retention_ms
            if now_ms >= due_ms:
                yield topic, partition


_NOTHING = CommittedOffset(-1)


def _committed(
    partition: OffsetCommitRequestPartition, now_ms: int, expire_ms: int, topic_id: bytes
) -> CommittedOffset:
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        now_ms,
        expire_ms,
        topic_id,
    )


def _fetched(partition: int, value: CommittedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition, value.offset, value.leader_epoch, value.metadata
    )


def _same_topic(committed_id: bytes, asked_id: bytes) -> bool:
    """Ids are compared where both are known; records of old and requests by name have none."""
    return committed_id in (asked_id, ZERO_UUID) or asked_id == ZERO_UUID
