"""The share coordinator: one partition of `__share_group_state`, and the states that it keeps.

The leader of a partition asks here what was stored of it for a group, and stores what changes:
now and then a snapshot of everything, in between updates.

Two epochs keep old writers out. The leader's epoch tells that another broker leads the partition
by now, the state's that the group's offsets were set again since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from ottla.coordinator.latest_records import NO_PRODUCER_ID
from ottla.coordinator.result import CoordinatorEvent, CoordinatorResult, RecordBytes, Token
from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard
from ottla.coordinator.share.record_state import StateBatch, combine
from ottla.coordinator.share.state_records import (
    UNKNOWN,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionUpdate,
    read_snapshot_key,
    read_state_record,
    write_snapshot,
    write_snapshot_key,
    write_update,
    write_update_key,
)
from ottla.errors import ErrorCode, KafkaError
from ottla.records.record import Record

NO_STATE: Final = SharePartitionState()


class SharePartitionWrite(NamedTuple):
    """What the leader of a partition writes to the state of a share-partition."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


class _StateEntry:
    """A state, how many updates came after its snapshot, and where in the log that one is."""

    __slots__ = ("snapshot_offset", "state", "updates")

    def __init__(self, state: SharePartitionState, snapshot_offset: int) -> None:
        self.state = state
        self.updates = 0
        self.snapshot_offset = snapshot_offset


class ShareCoordinatorShard(CoordinatorShard):
    """One partition's states. `end_offset` is where its next record will stand in the log."""

    __slots__ = ("_entries", "end_offset", "updates_per_snapshot")

    def __init__(self, partition: int, *, updates_per_snapshot: int) -> None:
        super().__init__(partition)
        self.updates_per_snapshot = updates_per_snapshot
        self.end_offset = 0
        self._entries: dict[SharePartitionKey, _StateEntry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[SharePartitionKey]:
        return iter(list(self._entries))

    # -- loading

    def load(self, records: Iterable[Record], producer_id: int = NO_PRODUCER_ID) -> None:
        """In order, because an update says only what changed. KafkaError if one is unreadable."""
        for record in records:
            if record.key is not None:
                self._replay(record.key, record.value, record.offset)

    def load_marker(self, producer_id: int, *, commit: bool) -> None:
        """No client writes to this topic in a transaction."""

    def loaded(self, now_ms: int) -> CoordinatorResult:
        return CoordinatorResult(self.partition)

    def _replay(self, key: bytes, value: bytes | None, offset: int) -> None:
        self.end_offset = offset + 1
        found = read_state_record(key, value)
        if found is None:
            return
        state_key, content = found
        if isinstance(content, SharePartitionState):
            self._entries[state_key] = _StateEntry(content, offset)
        elif isinstance(content, SharePartitionUpdate):
            entry = self._entries.get(state_key)
            if entry is not None and entry.state.snapshot_epoch == content.snapshot_epoch:
                entry.state = _updated(entry.state, content)
                entry.updates += 1
        elif read_snapshot_key(key) is not None:
            self._entries.pop(state_key, None)

    # -- requests

    def initialize(
        self,
        key: SharePartitionKey,
        *,
        state_epoch: int,
        start_offset: int,
        event: CoordinatorEvent,
    ) -> SharePartitionState:
        """A group begins with a partition, or its offsets are set: the state starts again.

        To begin twice, because a response was lost or two members joined at once, changes nothing:
        records that were acquired since are not delivered again.
        """
        entry = self._entries.get(key)
        before = NO_STATE if entry is None else entry.state
        if state_epoch < before.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        if entry is not None and (state_epoch, start_offset) == (before.state_epoch, UNKNOWN):
            return before
        snapshot_epoch = 0 if entry is None else before.snapshot_epoch + 1
        state = SharePartitionState(
            snapshot_epoch,
            state_epoch,
            before.leader_epoch,
            start_offset,
            UNKNOWN if start_offset == UNKNOWN else 0,
            event.now_ms,
            event.now_ms,
        )
        return self._snapshot(key, state, event)

    def read(
        self, key: SharePartitionKey, *, leader_epoch: int, event: CoordinatorEvent
    ) -> SharePartitionState:
        """What a new leader finds. From then on older leaders are fenced."""
        entry = self._find(key)
        self._check_leader(entry.state, leader_epoch)
        if leader_epoch <= entry.state.leader_epoch:
            return entry.state
        update = SharePartitionUpdate(
            entry.state.snapshot_epoch, leader_epoch, UNKNOWN, UNKNOWN, ()
        )
        return self._update(key, entry, update, event)

    def write(
        self, key: SharePartitionKey, write: SharePartitionWrite, event: CoordinatorEvent
    ) -> SharePartitionState:
        entry = self._find(key)
        state = entry.state
        self._check_leader(state, write.leader_epoch)
        if 0 <= write.state_epoch < state.state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH)
        # Of two writes in flight the later one may not know the start that the earlier one has set.
        start_offset = write.start_offset
        if start_offset != UNKNOWN:
            start_offset = max(start_offset, state.start_offset)
        update = SharePartitionUpdate(
            state.snapshot_epoch,
            write.leader_epoch,
            start_offset,
            write.delivery_complete_count,
            write.batches,
        )
        state_epoch = max(state.state_epoch, write.state_epoch)
        if entry.updates < self.updates_per_snapshot and state_epoch == state.state_epoch:
            return self._update(key, entry, update, event)
        whole = _updated(state, update)._replace(
            snapshot_epoch=state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            written_ms=event.now_ms,
        )
        return self._snapshot(key, whole, event)

    def delete(self, key: SharePartitionKey, event: CoordinatorEvent) -> SharePartitionState:
        """The group or the topic was deleted. A state that does not exist is not an error."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            event.record(write_snapshot_key(key), None)
            event.undo(lambda undo, code: self._put(key, entry))
        return NO_STATE

    def state(self, key: SharePartitionKey) -> SharePartitionState:
        """Without a check of the leader epoch."""
        entry = self._entries.get(key)
        return NO_STATE if entry is None else entry.state

    # -- the log's length

    def oldest_offset(self) -> int:
        """Where the oldest snapshot stands: nothing before it is needed to load the states."""
        return min(
            (entry.snapshot_offset for entry in self._entries.values()), default=self.end_offset
        )

    def renew(self, before_offset: int, now_ms: int) -> CoordinatorResult:
        """New snapshots for states whose last one holds up the start of the log."""
        event = self.new_event(now_ms)
        for key, entry in list(self._entries.items()):
            if entry.snapshot_offset < before_offset:
                epoch = entry.state.snapshot_epoch + 1
                state = entry.state._replace(snapshot_epoch=epoch, written_ms=now_ms)
                self._snapshot(key, state, event)
        return event.result

    def delete_all(self, keys: Iterable[SharePartitionKey], now_ms: int) -> CoordinatorResult:
        event = self.new_event(now_ms)
        for key in keys:
            self.delete(key, event)
        return event.result

    # -- changes

    def appended(self, records: list[RecordBytes], base_offset: int) -> None:
        """Remember where snapshots stand: the log is needed from the oldest of them on."""
        self.end_offset = base_offset + len(records)
        for offset, (key, _) in enumerate(records, base_offset):
            state_key = read_snapshot_key(key)
            entry = None if state_key is None else self._entries.get(state_key)
            if entry is not None:
                entry.snapshot_offset = offset

    def _snapshot(
        self, key: SharePartitionKey, state: SharePartitionState, event: CoordinatorEvent
    ) -> SharePartitionState:
        before = self._entries.get(key)
        # Until the snapshot is appended, the log is needed from the one before.
        offset = self.end_offset if before is None else before.snapshot_offset
        self._entries[key] = _StateEntry(state, offset)
        event.record(write_snapshot_key(key), write_snapshot(state))
        event.undo(lambda undo, code: self._put(key, before))
        return state

    def _update(
        self,
        key: SharePartitionKey,
        entry: _StateEntry,
        update: SharePartitionUpdate,
        event: CoordinatorEvent,
    ) -> SharePartitionState:
        before = entry.state
        entry.state = _updated(before, update)
        entry.updates += 1
        event.record(write_update_key(key), write_update(update))

        def take_back(undo: CoordinatorEvent, code: ErrorCode) -> None:
            entry.state = before
            entry.updates -= 1

        event.undo(take_back)
        return entry.state

    def _find(self, key: SharePartitionKey) -> _StateEntry:
        entry = self._entries.get(key)
        if entry is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has not been initialized")
        return entry

    def _put(self, key: SharePartitionKey, entry: _StateEntry | None) -> None:
        if entry is None:
            self._entries.pop(key, None)
        else:
            self._entries[key] = entry

    @staticmethod
    def error_reply(response: Any, code: ErrorCode) -> KafkaError:
        return KafkaError(code)

    @staticmethod
    def _check_leader(state: SharePartitionState, leader_epoch: int) -> None:
        if 0 <= leader_epoch < state.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH)


def _updated(state: SharePartitionState, update: SharePartitionUpdate) -> SharePartitionState:
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


Operation = Callable[[ShareCoordinatorShard, CoordinatorEvent], SharePartitionState]


class ShareCoordinator(CoordinatorRuntime[ShareCoordinatorShard]):
    """All states that this broker keeps."""

    __slots__ = ("updates_per_snapshot",)

    shard_class = ShareCoordinatorShard

    def __init__(self, partition_count: int, *, updates_per_snapshot: int) -> None:
        super().__init__(partition_count)
        self.updates_per_snapshot = updates_per_snapshot

    def new_shard(self, partition: int, leader_epoch: int) -> ShareCoordinatorShard:
        return ShareCoordinatorShard(partition, updates_per_snapshot=self.updates_per_snapshot)

    def write(
        self, key: SharePartitionKey, operation: Operation, *, token: Token, now_ms: int
    ) -> CoordinatorResult:
        """The reply is the state after the operation, or the KafkaError that refused it."""
        try:
            shard = self.shard_of(str(key))
        except KafkaError as error:
            return CoordinatorResult.of_reply(token, error)
        event = shard.new_event(now_ms)
        try:
            event.reply(token, operation(shard, event))
        except KafkaError as error:  # an operation checks before it changes anything
            event.reply(token, error)
        return event.result
