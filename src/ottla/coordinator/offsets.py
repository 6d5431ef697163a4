"""The offsets that groups have committed: kept, given out, deleted, and forgotten in time.

What a transaction commits is kept apart until its marker comes. Meanwhile who asks for stable
offsets (KIP-447) is told to wait, and what was committed before is neither expired nor forgotten.
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
from ottla.coordinator.pending import Pending
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
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.wire.primitives import ZERO_UUID

ByTopic = dict[str, dict[int, CommittedOffset]]
Place = tuple[str, str, int]  # group, topic, partition


class Offsets:
    """By group, topic and partition; a group or topic without offsets is not listed."""

    __slots__ = ("by_group", "pending")

    def __init__(self) -> None:
        self.by_group: dict[str, ByTopic] = {}
        self.pending: Pending[Place, CommittedOffset] = Pending()

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
        self.pending.overtake((group_id, topic, partition))

    def write_pending(
        self, producer_id: int, place: Place, value: CommittedOffset, turn: Turn
    ) -> None:
        turn.record(write_offset_key(*place), write_offset_value(value))
        self._keep_pending(place, turn)
        self.pending.put(producer_id, place, value)

    def erase(self, group_id: str, topic: str, partition: int, turn: Turn) -> None:
        """Also what waits for the end of a transaction, as Kafka does."""
        turn.record(write_offset_key(group_id, topic, partition), None)
        self._keep(group_id, topic, partition, turn)
        self.remove(group_id, topic, partition)
        self.pending.drop((group_id, topic, partition))

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker is in the log, so there is nothing to record, nor to take back."""
        for place, value in self.pending.end(producer_id, commit=commit):
            self.put(*place, value)

    def _keep_pending(self, place: Place, turn: Turn) -> None:
        before = self.pending.of(place)
        turn.undo(lambda undo, code: self.pending.restore(place, before))

    def _keep(self, group_id: str, topic: str, partition: int, turn: Turn) -> None:
        if (group_id, topic, partition) in self.pending:
            self._keep_pending((group_id, topic, partition), turn)
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
        response = OffsetCommitResponse()
        for topic in request.topics:
            answers: list[OffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                code = self._check_metadata(partition.committed_metadata, turn)
                if code is ErrorCode.NONE:
                    value = _committed(partition, turn.now_ms, expire_ms, topic.topic_id)
                    self.write(group_id, topic.name, partition.partition_index, value, turn)
                answers.append(OffsetCommitResponsePartition(partition.partition_index, code))
            response.topics.append(OffsetCommitResponseTopic(topic.name, topic.topic_id, answers))
        return response

    def commit_pending(
        self, request: TxnOffsetCommitRequest, turn: Turn
    ) -> TxnOffsetCommitResponse:
        """Keep apart what a transaction commits, once `check_commit` has let it pass."""
        turn.outcome.producer = (request.producer_id, request.producer_epoch)
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            answers: list[TxnOffsetCommitResponsePartition] = []
            for partition in topic.partitions:
                index = partition.partition_index
                code = self._check_metadata(partition.committed_metadata, turn)
                if code is ErrorCode.NONE:
                    value = _committed(partition, turn.now_ms, -1, topic.topic_id)
                    place = (request.group_id, topic.name, index)
                    self.write_pending(request.producer_id, place, value, turn)
                answers.append(TxnOffsetCommitResponsePartition(index, code))
            found = TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, answers)
            response.topics.append(found)
        return response

    def _check_metadata(self, metadata: str | None, turn: Turn) -> ErrorCode:
        metadata = metadata or ""
        size_max = turn.config.offset_metadata_bytes_max
        if len(metadata) > size_max or not is_recordable(metadata):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return ErrorCode.NONE

    def fetch(
        self, group_id: str, topics: list[OffsetFetchRequestTopics], *, stable: bool = False
    ) -> list[OffsetFetchResponseTopics]:
        """What is not there is -1, without an error. So is an offset of a topic's former life.

        `stable`: one that an open transaction may change is told as UNSTABLE_OFFSET_COMMIT.
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
        """All that is committed; what waits for its first commit to be decided is not."""
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
                known = self.is_known(group.group_id, topic.name, index)
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
        for place in list(self.pending):
            # Their records have no topic id, so they are of the topic that is gone.
            if place[1] == topic and self.get(*place) is None:
                self.erase(*place, turn)

    def erase_group(self, group_id: str, turn: Turn) -> None:
        """Everything that a group has committed, decided or not."""
        for topic, partition, _ in list(self.of_group(group_id)):
            self.erase(group_id, topic, partition, turn)
        for place in [place for place in self.pending if place[0] == group_id]:
            self.erase(*place, turn)

    def is_known(self, group_id: str, topic: str, partition: int) -> bool:
        place = (group_id, topic, partition)
        return place in self.pending or self.get(*place) is not None

    def expired(
        self, group: AnyGroup, now_ms: int, config: GroupConfig
    ) -> Iterator[tuple[str, int]]:
        """Offsets of this group that nobody has asked to keep for the retention time."""
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
    """Ids are compared where both are known; records of old and requests by name have none."""
    return committed_id in (asked_id, ZERO_UUID) or asked_id == ZERO_UUID
