"""The share coordinator's shard: snapshots, updates, fencing, and restarts."""

from __future__ import annotations

import pytest

from ottla.coordinator.result import CoordinatorEvent, CoordinatorResult, RecordBytes
from ottla.coordinator.share.record_state import RecordState, StateBatch
from ottla.coordinator.share.shard import ShareCoordinatorShard, SharePartitionWrite
from ottla.coordinator.share.state_records import (
    UNKNOWN,
    SharePartitionKey,
    SharePartitionState,
    write_snapshot_key,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

KEY = SharePartitionKey("g", b"t" * 16, 0)
OTHER = SharePartitionKey("g", b"t" * 16, 1)


class Topic:
    """A shard and its log."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.shard = ShareCoordinatorShard(0, updates_per_snapshot=updates_per_snapshot)
        self.log: list[RecordBytes] = []
        self.initialize(KEY, start_offset=UNKNOWN)

    def store(self, result: CoordinatorResult) -> None:
        self.shard.appended(result.records, len(self.log))
        self.log += result.records

    def fail(self, event: CoordinatorEvent) -> None:
        replies = self.shard.failed(event.result, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=0)
        assert not replies

    def initialize(self, key: SharePartitionKey, start_offset: int, state_epoch: int = 0) -> None:
        event = self.shard.new_event(0)
        self.shard.initialize(key, state_epoch=state_epoch, start_offset=start_offset, event=event)
        self.store(event.result)

    def read(self, key: SharePartitionKey, leader_epoch: int) -> SharePartitionState:
        event = self.shard.new_event(0)
        state = self.shard.read(key, leader_epoch=leader_epoch, event=event)
        self.store(event.result)
        return state

    def write(self, *batches: StateBatch, start: int = 0) -> None:
        self.write_as(SharePartitionWrite(0, 0, start, 0, batches))

    def write_as(self, write: SharePartitionWrite, key: SharePartitionKey = KEY) -> None:
        event = self.shard.new_event(1)
        self.shard.write(key, write, event)
        self.store(event.result)

    def reload(self, start: int = 0) -> ShareCoordinatorShard:
        shard = ShareCoordinatorShard(0, updates_per_snapshot=self.updates_per_snapshot)
        records = [
            Record(offset, key=key, value=value) for offset, (key, value) in enumerate(self.log)
        ]
        shard.load(records[start:])
        return shard


def acknowledged(first: int, last: int) -> StateBatch:
    return StateBatch(first, last, RecordState.ACKNOWLEDGED, 1)


def test_updates_are_written_between_snapshots() -> None:
    topic = Topic(updates_per_snapshot=2)
    for offset in range(6):
        topic.write(acknowledged(2 * offset, 2 * offset))
    snapshots = [key == write_snapshot_key(KEY) for key, _ in topic.log]
    assert snapshots == [True, False, False, True, False, False, True]
    assert topic.reload().state(KEY).batches == topic.shard.state(KEY).batches
    assert len(topic.shard.state(KEY).batches) == 6


def test_the_start_moves_and_earlier_records_are_forgotten() -> None:
    topic = Topic()
    topic.write(acknowledged(3, 4))
    topic.write(acknowledged(0, 2), start=5)
    state = topic.reload().state(KEY)
    assert (state.start_offset, state.batches) == (5, ())


def test_a_partition_has_no_start_until_somebody_reads_it() -> None:
    topic = Topic()
    assert topic.read(KEY, leader_epoch=0).start_offset == UNKNOWN
    assert len(topic.log) == 1


def test_a_partition_that_nobody_initialized_has_no_state() -> None:
    topic = Topic()
    for refused in (
        lambda: topic.read(OTHER, leader_epoch=0),
        lambda: topic.write_as(SharePartitionWrite(0, 0, 0, 0, ()), OTHER),
    ):
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code is ErrorCode.INVALID_REQUEST


def test_an_older_leader_is_fenced() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 0))
    topic.read(KEY, leader_epoch=7)
    assert topic.reload().state(KEY).leader_epoch == 7
    for refused in (
        lambda: topic.write_as(SharePartitionWrite(0, 6, 0, 0, ())),
        lambda: topic.read(KEY, leader_epoch=6),
    ):
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_setting_offsets_fences_writers_of_the_previous_state() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 9))
    topic.initialize(KEY, start_offset=2, state_epoch=4)
    state = topic.reload().state(KEY)
    assert (state.state_epoch, state.start_offset, state.batches) == (4, 2, ())
    with pytest.raises(KafkaError) as error:
        topic.write_as(SharePartitionWrite(3, 0, 0, 0, ()))
    assert error.value.code is ErrorCode.FENCED_STATE_EPOCH
    with pytest.raises(KafkaError) as error:
        topic.initialize(KEY, start_offset=2, state_epoch=3)
    assert error.value.code is ErrorCode.FENCED_STATE_EPOCH


def test_an_event_whose_append_fails_leaves_no_trace() -> None:
    topic = Topic()
    shard = topic.shard
    event = shard.new_event(0)
    shard.initialize(OTHER, state_epoch=0, start_offset=0, event=event)
    topic.fail(event)
    assert list(shard) == [KEY]
    topic.write(acknowledged(0, 0))
    before = shard.state(KEY)
    event = shard.new_event(0)
    shard.write(KEY, SharePartitionWrite(0, 0, 9, 0, ()), event)
    shard.initialize(KEY, state_epoch=2, start_offset=0, event=event)
    shard.delete(KEY, event)
    topic.fail(event)
    assert shard.state(KEY) == before


def test_a_deleted_state_stays_deleted_after_a_restart() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 0))
    topic.write(acknowledged(1, 1))
    topic.store(topic.shard.delete_all([KEY], 0))
    assert topic.log[-1] == (write_snapshot_key(KEY), None)
    assert list(topic.reload()) == []
    assert not topic.shard.delete_all([KEY], 0).records


def test_the_log_can_be_cut_before_the_oldest_snapshot() -> None:
    topic = Topic(updates_per_snapshot=2)
    topic.initialize(OTHER, start_offset=0)
    for offset in range(5):
        topic.write(acknowledged(2 * offset, 2 * offset))
    assert topic.shard.oldest_offset() == 1  # the other one's
    topic.store(topic.shard.renew(3, 9))
    oldest = topic.shard.oldest_offset()
    assert oldest == 4
    again = topic.reload(start=oldest)
    assert {key: again.state(key) for key in again} == {
        key: topic.shard.state(key) for key in topic.shard
    }
    assert again.oldest_offset() == oldest


def test_loading_finds_where_snapshots_are() -> None:
    topic = Topic(updates_per_snapshot=1)
    for offset in range(5):
        topic.write(acknowledged(2 * offset, 2 * offset))
    assert topic.reload().oldest_offset() == topic.shard.oldest_offset() == 4
    assert topic.reload().end_offset == topic.shard.end_offset == 6
