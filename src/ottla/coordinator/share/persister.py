"""The share coordinator: one partition of `__share_group_state`, and the states that it keeps.

The leader of a partition asks here what was stored of it for a group, and stores what changes:
now and then a snapshot of everything, in between updates. A change is made at once and comes back
as `Stored`: a record to append, and how to take the change back if that fails.

Two epochs keep old writers out. The leader's epoch tells that another broker leads the partition
by now, the state's that the group's offsets were set anew since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ottla.coordinator.share.records import (
    UNKNOWN,
    ShareState,
    StateKey,
    StateUpdate,
    read_state_record,
    write_snapshot,
    write_snapshot_key,
    write_update,
    write_update_key,
)
from ottla.coordinator.share.states import StateBatch, combine
from ottla.errors import ErrorCode, KafkaError

RecordBytes = tuple[bytes, bytes | None]

NOTHING: Final = ShareState()


class Stored(NamedTuple):
    """`record` is to be appended; `undo` takes the change back where it cannot be."""

    record: RecordBytes | None
    undo: Callable[[], None]


def _nothing() -> None:
    pass


UNCHANGED: Final = Stored(None, _nothing)


class StateWrite(NamedTuple):
    """What a leader has to say about a share-partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class _Kept:
    """A state, how many updates came after its snapshot, and where in the log that one is."""

    __slots__ = ("snapshot_offset", "state", "updates")

    def __init__(self, state: ShareState, snapshot_offset: int) -> None:
        self.state = state
        self.updates = 0
        self.snapshot_offset = snapshot_offset


class ShareStates:
    """One partition's states. `end_offset` is where its next record will stand in the log."""

    __slots__ = ("_kept", "end_offset", "updates_per_snapshot")

    def __init__(self, *, updates_per_snapshot: int) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.end_offset = 0
        self._kept: dict[StateKey, _Kept] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[StateKey]:
        return iter(list(self._kept))

    # -- loading

    def load(self, key: bytes, value: bytes | None, offset: int) -> None:
        """The next record of the log; KafkaError if it cannot be read."""
        self.end_offset = offset + 1
        found = read_state_record(key, value)
        if found is None:
            return
        state_key, content = found
        if isinstance(content, ShareState):
            self._kept[state_key] = _Kept(content, offset)
        elif isinstance(content, StateUpdate):
            kept = self._kept.get(state_key)
            if kept is not None and kept.state.snapshot_epoch == content.snapshot_epoch:
                kept.state = _updated(kept.state, content)
                kept.updates += 1
        elif key == write_snapshot_key(state_key):
            self._kept.pop(state_key, None)

    # -- requests

    def initialize(
        self, key: StateKey, *, state_epoch: int, start_offset: int, now_ms: int
    ) -> Stored:
        """A group begins with a partition, or its offsets are set anew: the rest is forgotten.

        One that begins twice, because the answer was lost or two members came at once, has begun:
        records that were given out since are not given out again.
        """
        kept = self._kept.get(key)
        before = NOTHING if kept is None else kept.state
        if state_epoch < before.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if kept is not None and (state_epoch, start_offset) == (before.state_epoch, UNKNOWN):
            return UNCHANGED
        snapshot_epoch = 0 if kept is None else before.snapshot_epoch + 1
        state = ShareState(
            snapshot_epoch,
            state_epoch,
            before.leader_epoch,
            start_offset,
            UNKNOWN if start_offset == UNKNOWN else 0,
            now_ms,
            now_ms,
        )
        return self._snapshot(key, state)

    def read(self, key: StateKey, *, leader_epoch: int, now_ms: int) -> tuple[ShareState, Stored]:
        """What a new leader finds. From then on older leaders write in vain."""
        kept = self._find(key)
        self._check_leader(kept.state, leader_epoch)
        if leader_epoch <= kept.state.leader_epoch:
            return kept.state, UNCHANGED
        update = StateUpdate(kept.state.snapshot_epoch, leader_epoch, UNKNOWN, UNKNOWN, ())
        stored = self._update(key, kept, update)
        return kept.state, stored

    def write(self, key: StateKey, write: StateWrite, now_ms: int) -> Stored:
        kept = self._find(key)
        state = kept.state
        self._check_leader(state, write.leader_epoch)
        if 0 <= write.state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        # Of two writes on their way at once, the later one may not know where the earlier one ends.
        start_offset = write.start_offset
        if start_offset != UNKNOWN:
            start_offset = max(start_offset, state.start_offset)
        update = StateUpdate(
            state.snapshot_epoch,
            write.leader_epoch,
            start_offset,
            write.delivery_complete_count,
            write.batches,
        )
        state_epoch = max(state.state_epoch, write.state_epoch)
        if kept.updates < self.updates_per_snapshot and state_epoch == state.state_epoch:
            return self._update(key, kept, update)
        whole = _updated(state, update)._replace(
            snapshot_epoch=state.snapshot_epoch + 1, state_epoch=state_epoch, written_ms=now_ms
        )
        return self._snapshot(key, whole)

    def delete(self, key: StateKey) -> Stored:
        """The group or the topic is gone. What is not there is deleted without further ado."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return UNCHANGED
        return Stored((write_snapshot_key(key), None), lambda: self._put(key, kept))

    def state(self, key: StateKey) -> ShareState:
        """For those who only want to know, whoever leads."""
        kept = self._kept.get(key)
        return NOTHING if kept is None else kept.state

    # -- the log's length

    def oldest_offset(self) -> int:
        """Nothing before this one is needed to load the states again."""
        return min((kept.snapshot_offset for kept in self._kept.values()), default=self.end_offset)

    def renew(self, before_offset: int, now_ms: int) -> list[tuple[StateKey, Stored]]:
        """New snapshots for states whose last one holds up the start of the log."""
        return [
            (key, self._snapshot(key, kept.state._replace(
                snapshot_epoch=kept.state.snapshot_epoch + 1, written_ms=now_ms
            )))
            for key, kept in list(self._kept.items())
            if kept.snapshot_offset < before_offset
        ]  # fmt: skip

    # -- changes

    def appended(self, key: StateKey, record: RecordBytes, offset: int) -> None:
        """Where the record came to stand."""
        self.end_offset = offset + 1
        kept = self._kept.get(key)
        if kept is not None and record[0] == write_snapshot_key(key):
            kept.snapshot_offset = offset

    def _snapshot(self, key: StateKey, state: ShareState) -> Stored:
        before = self._kept.get(key)
        offset = self.end_offset if before is None else before.snapshot_offset
        self._kept[key] = _Kept(state, offset)  # until it stands in the log, the old one counts
        return Stored(
            (write_snapshot_key(key), write_snapshot(state)), lambda: self._put(key, before)
        )

    def _update(self, key: StateKey, kept: _Kept, update: StateUpdate) -> Stored:
        before = kept.state
        kept.state = _updated(before, update)
        kept.updates += 1

        def undo() -> None:
            kept.state = before
            kept.updates -= 1

        return Stored((write_update_key(key), write_update(update)), undo)

    def _find(self, key: StateKey) -> _Kept:
        kept = self._kept.get(key)
        if kept is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has not been initialized")
        return kept

    def _put(self, key: StateKey, kept: _Kept | None) -> None:
        if kept is None:
            self._kept.pop(key, None)
        else:
            self._kept[key] = kept

    @staticmethod
    def _check_leader(state: ShareState, leader_epoch: int) -> None:
        if 0 <= leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _updated(state: ShareState, update: StateUpdate) -> ShareState:
    start_offset = state.start_offset if update.start_offset == UNKNOWN else update.start_offset
    count = update.delivery_complete_count
    batches = state.batches
    if update.batches or start_offset != state.start_offset:
        batches = tuple(combine(batches, update.batches, start_offset))
    return state._replace(
        leader_epoch=max(state.leader_epoch, update.leader_epoch),
        start_offset=start_offset,
        delivery_complete_count=state.delivery_complete_count if count == UNKNOWN else count,
        batches=batches,
    )
