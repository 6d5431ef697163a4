"""Offsets of transactions, compared with a model that compares positions in the log, as Kafka."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.coordinator.classic.group import GroupCoordinatorConfig
from ottla.coordinator.group_shard import GroupCoordinatorShard
from ottla.coordinator.latest_records import LatestRecords
from ottla.coordinator.open_transactions import OpenTransactions
from ottla.coordinator.result import CoordinatorResult
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.wire.fields import ZERO_UUID
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequestTopics
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

NOW_MS = 1_700_000_000_000
GROUPS = ("g", "h")
PARTITIONS = (0, 1)
PRODUCERS = st.integers(1, 3)
NOBODY = -1

TopicPartitionKey = tuple[str, int]


class PendingMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        # Producer, records; or producer, whether it was committed.
        self.log: list[tuple[int, list[tuple[bytes, bytes | None]] | bool]] = []
        self.position = 0  # in the log
        self.fails = False
        self.committed: dict[TopicPartitionKey, tuple[int, int]] = {}  # offset, position
        self.pending: dict[int, dict[TopicPartitionKey, tuple[int, int]]] = {}
        self.shard = self.load()

    def load(self) -> GroupCoordinatorShard:
        shard = GroupCoordinatorShard(0, config=GroupCoordinatorConfig(), uuid=lambda: "u")
        for producer_id, part in self.log:
            if isinstance(part, bool):
                shard.load_marker(producer_id, commit=part)
            else:
                shard.load([Record(key=key, value=value) for key, value in part], producer_id)
        shard.loaded(NOW_MS)
        return shard

    def carry_out(self, outcome: CoordinatorResult) -> bool:
        """True if the producer's records are in the log."""
        if not outcome.records:
            return False
        if self.fails:
            self.fails = False
            self.shard.failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=NOW_MS)
            return False
        producer_id = NOBODY if outcome.producer is None else outcome.producer[0]
        self.log.append((producer_id, outcome.records))
        self.position += 1
        return True

    @rule()
    def append_will_fail(self) -> None:
        self.fails = True

    @rule(
        group=st.sampled_from(GROUPS),
        partition=st.sampled_from(PARTITIONS),
        offset=st.integers(0, 99),
    )
    def commit(self, group: str, partition: int, offset: int) -> None:
        parts = [OffsetCommitRequestPartition(partition, offset)]
        request = OffsetCommitRequest(
            group, -1, "", topics=[OffsetCommitRequestTopic("t", ZERO_UUID, parts)]
        )
        outcome = self.shard.offset_commit(request, version=9, token=1, now_ms=NOW_MS)
        if self.carry_out(outcome):
            self.committed[group, partition] = (offset, self.position)

    @rule(
        producer=PRODUCERS,
        group=st.sampled_from(GROUPS),
        partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1),
        offset=st.integers(0, 99),
    )
    def txn_commit(self, producer: int, group: str, partitions: set[int], offset: int) -> None:
        parts = [TxnOffsetCommitRequestPartition(partition, offset) for partition in partitions]
        request = TxnOffsetCommitRequest(
            "id", group, producer, 0, topics=[TxnOffsetCommitRequestTopic("t", partitions=parts)]
        )
        request.generation_id = -1
        outcome = self.shard.txn_offset_commit(request, version=5, token=1, now_ms=NOW_MS)
        if self.carry_out(outcome):
            for partition in partitions:
                place = (group, partition)
                self.pending.setdefault(producer, {})[place] = (offset, self.position)

    @rule(producer=PRODUCERS, commit=st.booleans())
    def end(self, producer: int, commit: bool) -> None:
        self.shard.end_transaction(producer, commit=commit)
        self.log.append((producer, commit))
        self.position += 1
        for place, found in self.pending.pop(producer, {}).items():
            if commit and found[1] > self.committed.get(place, (0, -1))[1]:
                self.committed[place] = found

    @rule(group=st.sampled_from(GROUPS), partition=st.sampled_from(PARTITIONS))
    def delete(self, group: str, partition: int) -> None:
        parts = [OffsetDeleteRequestPartition(partition)]
        request = OffsetDeleteRequest(group, [OffsetDeleteRequestTopic("t", parts)])
        outcome = self.shard.offset_delete(request, token=1, now_ms=NOW_MS)
        if self.carry_out(outcome):
            self.forget((group, partition))

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group: str) -> None:
        outcome = self.shard.delete_groups([group], token=1, now_ms=NOW_MS)
        if self.carry_out(outcome):
            for partition in PARTITIONS:
                self.forget((group, partition))

    @rule()
    def forget_topic(self) -> None:
        if self.carry_out(self.shard.forget_topic("t", ZERO_UUID, now_ms=NOW_MS)):
            self.committed.clear()
            self.pending.clear()

    def forget(self, place: TopicPartitionKey) -> None:
        self.committed.pop(place, None)
        for places in self.pending.values():
            places.pop(place, None)

    @rule()
    def restart(self) -> None:
        self.shard = self.load()

    @invariant()
    def groups_know_what_the_log_says(self) -> None:
        asked = [OffsetFetchRequestTopics("t", ZERO_UUID, list(PARTITIONS))]
        for group in GROUPS:
            (topic,) = self.shard.offset_fetch(group, asked)
            (stable,) = self.shard.offset_fetch(group, asked, stable=True)
            for shown, strict in zip(topic.partitions, stable.partitions, strict=True):
                place = (group, shown.partition_index)
                known = self.committed.get(place, (-1, 0))[0]
                assert (shown.committed_offset, shown.error_code) == (known, 0)
                unstable = any(place in places for places in self.pending.values())
                if unstable:
                    assert group in self.shard.groups
                    assert strict.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
                    assert strict.committed_offset == -1
                else:
                    assert (strict.committed_offset, strict.error_code) == (known, 0)


TestPendingOffsets = PendingMachine.TestCase
TestPendingOffsets.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, database=None
)


def test_dropped_offsets_leave_nothing_behind() -> None:
    pending: OpenTransactions[str, int] = OpenTransactions()
    pending.put(1, "a", 5)
    pending.put(1, "b", 6)
    pending.put(2, "a", 7)
    pending.drop("a")
    assert list(pending) == ["b"]
    assert pending.end(2, commit=True) == []
    assert pending.end(1, commit=True) == [("b", 6)]
    assert not len(pending)


def test_restored_offsets_keep_their_order() -> None:
    pending: OpenTransactions[str, int] = OpenTransactions()
    pending.put(1, "a", 5)
    pending.put(2, "a", 7)
    before = pending.values_of("a")
    pending.put(1, "a", 9)
    pending.restore("a", before)
    assert pending.end(2, commit=True) == [("a", 7)]
    assert pending.end(1, commit=True) == []  # overtaken


def test_a_record_without_a_key_is_skipped() -> None:
    loading = LatestRecords()
    loading.add([Record(key=None, value=b"v")])
    loading.add([Record(key=None, value=b"v")], 7)
    assert (loading.latest, list(loading.open())) == ({}, [])
