"""The offsets that groups have committed: stored, fetched, deleted and expired.

Offsets of a transaction are kept apart until its marker comes. Meanwhile a fetch of stable offsets
(KIP-447) gets UNSTABLE_OFFSET_COMMIT, and the offsets committed before neither expire nor go.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import Group
from ottla.coordinator.open_transactions import OpenTransactions
from ottla.coordinator.records import (
    CommittedOffset,
    is_recordable,
    write_offset_key,
    write_offset_value,
)
from ottla.errors import ErrorCode
from ottla.wire.fields import ZERO_UUID
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
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

ByTopic = dict[str, dict[int, CommittedOffset]]
GroupTopicPartition = tuple[str, str, int]  # group, topic, partition


class CommittedOffsets:
    """By group, topic and partition; a group or topic without offsets is not listed."""

    __slots__ = ("by_group", "pending")

    def __init__(self) -> None:
        self.by_group: dict[str, ByTopic] = {}
        self.pending: OpenTransactions[GroupTopicPartition, CommittedOffset] = OpenTransactions()

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

    # -- changes: each has its record, and can be undone

    def write(
        self,
        group_id: str,
        topic: str,
        partition: int,
        value: CommittedOffset,
        event: GroupEvent,
    ) -> None:
        event.record(write_offset_key(group_id, topic, partition), write_offset_value(value))
        self._keep(group_id, topic, partition, event)
        self.put(group_id, topic, partition, value)
        self.pending.supersede((group_id, topic, partition))

    def write_pending(
        self,
        producer_id: int,
        key: GroupTopicPartition,
        value: CommittedOffset,
        event: GroupEvent,
    ) -> None:
        event.record(write_offset_key(*key), write_offset_value(value))
        self._keep_pending(key, event)
        self.pending.put(producer_id, key, value)

    def erase(self, group_id: str, topic: str, partition: int, event: GroupEvent) -> None:
        """Offsets of open transactions go as well, as in Kafka."""
        event.record(write_offset_key(group_id, topic, partition), None)
        self._keep(group_id, topic, partition, event)
        self.remove(group_id, topic, partition)
        self.pending.drop((group_id, topic, partition))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker is in the log, so there is nothing to record or to undo."""
        for key, value in self.pending.end(producer_id, commit=commit):
            self.put(*key, value)

    def _keep_pending(self, key: GroupTopicPartition, event: GroupEvent) -> None:
        before = self.pending.values_of(key)
        event.undo(lambda undo, code: self.pending.restore(key, before))

    def _keep(self, group_id: str, topic: str, partition: int, event: GroupEvent) -> None:
        if (group_id, topic, partition) in self.pending:
            self._keep_pending((group_id, topic, partition), event)
        before = self.get(group_id, topic, partition)
        if before is None:
            event.undo(lambda undo, code: self.remove(group_id, topic, partition))
        else:
            event.undo(lambda undo, code: self.put(group_id, topic, partition, before))

    # -- requests

    def commit(self, request: OffsetCommitRequest, event: GroupEvent) -> OffsetCommitResponse:
        """Store the offsets of a request that the group has accepted."""
        group_id = request.group_id
        expire_ms = -1
        if request.retention_time >= 0:  # v2 to v4: the client knows better than the broker
            expire_ms = event.now_ms + request.retention_time
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                code = self._check_metadata(partition.committed_metadata, event)
                if code is ErrorCode.NONE:
                    value = _committed(partition, event.now_ms, expire_ms, topic.topic_id)
                    self.write(group_id, topic.name, partition.partition_index, value, event)
                answers.append(OffsetCommitResponsePartition(partition.partition_index, code))
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
        return response

    def commit_pending(
        self, request: TxnOffsetCommitRequest, event: GroupEvent
    ) -> TxnOffsetCommitResponse:
        """Store the offsets of a transaction apart, once the group has accepted them."""
        event.result.producer = (request.producer_id, request.producer_epoch)
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            answers: list[TxnOffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                code = self._check_metadata(partition.committed_metadata, event)
                if code is ErrorCode.NONE:
                    value = _committed(partition, event.now_ms, -1, topic.topic_id)
                    key = (request.group_id, topic.name, index)
                    self.write_pending(request.producer_id, key, value, event)
                answers.append(TxnOffsetCommitResponsePartition(index, code))
            answer = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers)
            response.topics.append(answer)
        return response

    def _check_metadata(self, metadata: str | None, event: GroupEvent) -> ErrorCode:
        metadata = metadata or ""
        size_max = event.config.offset_metadata_bytes_max
        if len(metadata) > size_max or not is_recordable(metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics], *, stable: bool = False
    ) -> list[OffsetFetchResponseTopics]:
        """-1 without an error if nothing is committed, or only for a deleted topic of that name.

        `stable`: UNSTABLE_OFFSET_COMMIT where an open transaction may change the offset.
        """
        committed = self.by_group.get(group_id, {})
        answers: list[OffsetFetchResponseTopics] = []
        for topic in topics:
            of_topic = committed.get(topic.name, {})
            answer = OffsetFetchResponseTopics(topic.name, topic.topic_id)
            for index in topic.partition_indexes:
                if stable and (group_id, topic.name, index) in self.pending:
                    answer.partitions.append(_unstable(index))
                    continue
                value = of_topic.get(index)
                if value is None or not _same_topic(value.topic_id, topic.topic_id):
                    value = _NOTHING
                answer.partitions.append(_fetched(index, value))
            answers.append(answer)
        return answers

    def fetch_all(self, group_id: str, *, stable: bool = False) -> list[OffsetFetchResponseTopics]:
        """All committed offsets; those of open transactions are not committed."""
        return [
            OffsetFetchResponseTopics(
                topic,
                partitions=[
                    _unstable(index)
                    if stable and (group_id, topic, index) in self.pending
                    else _fetched(index, value)
                    for index, value in partitions.items()
                ],
            )
            for topic, partitions in self.by_group.get(group_id, {}).items()
        ]

    def delete(
        self, group: Group, request: OffsetDeleteRequest, event: GroupEvent
    ) -> OffsetDeleteResponse:
        """Offsets of topics that the group is subscribed to stay (KIP-496)."""
        response = OffsetDeleteResponse()
        for topic in request.topics:
            code = ErrorCode.NONE
            if group.subscribes(topic.name):
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            answer = OffsetDeleteResponseTopic(topic.name)
            for partition in topic.partitions:
                index = partition.partition_index
                known = self.is_known(group.group_id, topic.name, index)
                if known and code is ErrorCode.NONE:
                    self.erase(group.group_id, topic.name, index, event)
                answer.partitions.append(OffsetDeleteResponsePartition(index, code))
            response.topics.append(answer)
        return response

    def forget_topic(self, topic: str, topic_id: bytes, event: GroupEvent) -> None:
        """A topic was deleted. Offsets of a later topic of the same name stay."""
        for group_id, topics in list(self.by_group.items()):
            for partition, value in list(topics.get(topic, {}).items()):
                if _same_topic(value.topic_id, topic_id):
                    self.erase(group_id, topic, partition, event)
        for key in list(self.pending):
            # Records of transactions have no topic id here, so they are of the deleted topic.
            if key[1] == topic and self.get(*key) is None:
                self.erase(*key, event)

    def erase_group(self, group_id: str, event: GroupEvent) -> None:
        """All offsets of a group, those of open transactions as well."""
        for topic, partition, _ in list(self.of_group(group_id)):
            self.erase(group_id, topic, partition, event)
        for key in [key for key in self.pending if key[0] == group_id]:
            self.erase(*key, event)

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        key = (group_id, topic, partition)
        return key in self.pending or self.get(*key) is not None

    def expired(
        self, group: Group, now_ms: int, config: GroupCoordinatorConfig
    ) -> Iterator[tuple[str, int]]:
        """Offsets of this group that are past their retention."""
        for topic, partition, value in self.of_group(group.group_id):
            if group.subscribes(topic) or (group.group_id, topic, partition) in self.pending:
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
    partition: OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition,
    now_ms: int,
    expire_ms: int,
    topic_id: bytes,
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


def _unstable(partition: int) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition, -1, -1, "", ErrorCode.UNSTABLE_OFFSET_COMMIT)


def _same_topic(committed_id: bytes, asked_id: bytes) -> bool:
    """Ids are compared where both are known; old records and requests by name have none."""
    return committed_id in (asked_id, ZERO_UUID) or asked_id == ZERO_UUID
