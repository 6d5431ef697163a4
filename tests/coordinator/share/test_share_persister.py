"""The share coordinator's shard: snapshots, updates, fencing, and what a restart finds."""

from __future__ import annotations

import pytest

from ottla.coordinator.share.persister import ShareStates, StateWrite, Stored
from ottla.coordinator.share.records import UNKNOWN, StateKey, write_snapshot_key
from ottla.coordinator.share.states import RecordState, StateBatch
from ottla.errors import ErrorCode, KafkaError

KEY = StateKey("g", b"t" * 16, 0)
OTHER = StateKey("g", b"t" * 16, 1)


class Topic:
    """A shard and its log."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.states = ShareStates(updates_per_snapshot=updates_per_snapshot)
        self.log: list[tuple[bytes, bytes | None]] = []
        self.store(self.states.initialize(KEY, state_epoch=0, start_offset=UNKNOWN, now_ms=0))

    def store(self, stored: Stored, key: StateKey = KEY) -> None:
        if stored.record is not None:
            self.log.append(stored.record)
            self.states.appended(key, stored.record, len(self.log) - 1)

    def write(self, *batches: StateBatch, start: int = 0, key: StateKey = KEY) -> None:
        write = StateWrite(0, 0, start, 0, batches)
        self.store(self.states.write(key, write, 1), key)

    def reload(self, start: int = 0) -> ShareStates:
        states = ShareStates(updates_per_snapshot=self.updates_per_snapshot)
        for offset, (key, value) in enumerate(self.log):
            if offset >= start:
                states.load(key, value, offset)
        return states


def acknowledged(first: int, last: int) -> StateBatch:
    return StateBatch(first, last, RecordState.ACKNOWLEDGED, 1)


def test_updates_come_between_snapshots() -> None:
    topic = Topic(updates_per_snapshot=2)
    for offset in range(6):
        topic.write(acknowledged(2 * offset, 2 * offset))
    snapshots = [key == write_snapshot_key(KEY) for key, _ in topic.log]
    assert snapshots == [True, False, False, True, False, False, True]
    assert topic.reload().state(KEY).batches == topic.states.state(KEY).batches
    assert len(topic.states.state(KEY).batches) == 6


def test_the_start_moves_and_what_lies_before_is_forgotten() -> None:
    topic = Topic()
    topic.write(acknowledged(3, 4))
    topic.write(acknowledged(0, 2), start=5)
    state = topic.reload().state(KEY)
    assert (state.start_offset, state.batches) == (5, ())


def test_a_partition_has_no_start_until_somebody_reads_it() -> None:
    state, stored = Topic().states.read(KEY, leader_epoch=0, now_ms=0)
    assert state.start_offset == UNKNOWN
    assert stored.record is None


def test_a_partition_that_nobody_initialized_has_no_state() -> None:
    states = Topic().states
    for refused in (
        lambda: states.read(OTHER, leader_epoch=0, now_ms=0),
        lambda: states.write(OTHER, StateWrite(0, 0, 0, 0, ()), 0),
    ):
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code is ErrorCode.INVALID_REQUEST


def test_an_older_leader_is_fenced() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 0))
    _, stored = topic.states.read(KEY, leader_epoch=7, now_ms=0)
    topic.store(stored)
    assert topic.reload().state(KEY).leader_epoch == 7
    for refused in (
        lambda: topic.states.write(KEY, StateWrite(0, 6, 0, 0, ()), 0),
        lambda: topic.states.read(KEY, leader_epoch=6, now_ms=0),
    ):
        with pytest.raises(KafkaError) as error:
            refused()
        assert error.value.code is ErrorCode.FENCED_LEADER_EPOCH


def test_offsets_set_anew_fence_those_who_do_not_know() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 9))
    topic.store(topic.states.initialize(KEY, state_epoch=4, start_offset=2, now_ms=5))
    state = topic.reload().state(KEY)
    assert (state.state_epoch, state.start_offset, state.batches) == (4, 2, ())
    with pytest.raises(KafkaError) as error:
        topic.states.write(KEY, StateWrite(3, 0, 0, 0, ()), 0)
    assert error.value.code is ErrorCode.FENCED_STATE_EPOCH
    with pytest.raises(KafkaError) as error:
        topic.states.initialize(KEY, state_epoch=3, start_offset=2, now_ms=5)
    assert error.value.code is ErrorCode.FENCED_STATE_EPOCH


def test_what_cannot_be_appended_never_was() -> None:
    topic = Topic()
    topic.states.initialize(OTHER, state_epoch=0, start_offset=0, now_ms=0).undo()
    assert list(topic.states) == [KEY]
    topic.write(acknowledged(0, 0))
    before = topic.states.state(KEY)
    topic.states.write(KEY, StateWrite(0, 0, 9, 0, ()), 0).undo()
    topic.states.initialize(KEY, state_epoch=2, start_offset=0, now_ms=0).undo()
    topic.states.delete(KEY).undo()
    assert topic.states.state(KEY) == before


def test_a_deleted_state_is_gone_after_a_restart_too() -> None:
    topic = Topic()
    topic.write(acknowledged(0, 0))
    topic.write(acknowledged(1, 1))
    topic.store(topic.states.delete(KEY))
    assert topic.log[-1] == (write_snapshot_key(KEY), None)
    assert list(topic.reload()) == []
    assert topic.states.delete(KEY).record is None


def test_the_log_can_be_cut_before_the_oldest_snapshot() -> None:
    topic = Topic(updates_per_snapshot=2)
    made = topic.states.initialize(OTHER, state_epoch=0, start_offset=0, now_ms=0)
    topic.store(made, OTHER)
    for offset in range(5):
        topic.write(acknowledged(2 * offset, 2 * offset))
    assert topic.states.oldest_offset() == 1  # the other one's
    for key, stored in topic.states.renew(3, 9):
        topic.store(stored, key)
    oldest = topic.states.oldest_offset()
    assert oldest == 4
    again = topic.reload(start=oldest)
    assert {key: again.state(key) for key in again} == {
        key: topic.states.state(key) for key in topic.states
    }
    assert again.oldest_offset() == oldest


def test_loading_finds_where_snapshots_are() -> None:
    topic = Topic(updates_per_snapshot=1)
    for offset in range(5):
        topic.write(acknowledged(2 * offset, 2 * offset))
    assert topic.reload().oldest_offset() == topic.states.oldest_offset() == 4
    assert topic.reload().end_offset == topic.states.end_offset == 6
