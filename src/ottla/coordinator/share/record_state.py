"""The delivery state of records in a share group, for ranges of offsets.

    AVAILABLE ──acquired──> ACQUIRED ──accepted──────────────────────────> ACKNOWLEDGED
        ^                      │ └──rejected, gone, delivered too often──> ARCHIVED
        └──released, too late──┘                  └──> ARCHIVING ────────────┘

ACKNOWLEDGED and ARCHIVED are final. A record passes through ARCHIVING if its group has a dead
letter queue (KIP-1191): that state is stored before the dead letter is written, so that it is
written after a crash as well. ACQUIRED is never stored: acquisition locks end with their leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import Final, NamedTuple


class RecordState(IntEnum):
    """The numbers are those of Kafka's records and requests."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


FINAL: Final = frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED})
STORABLE: Final = FINAL | {RecordState.AVAILABLE, RecordState.ARCHIVING}


class AcknowledgeType(IntEnum):
    """How a member acknowledges a record; RENEW (KIP-1222) extends its lock."""

    GAP = 0  # there is no such record: compacted away, or a transaction's marker
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class StateBatch(NamedTuple):
    """Records from `first_offset` to `last_offset`, both included, in the same state."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


def combine(
    batches: Iterable[StateBatch], updates: Iterable[StateBatch], start_offset: int
) -> list[StateBatch]:
    """The states after `updates`, in the order of offsets, from `start_offset` on.

    Of two states of the same offset the later one is valid: the only writer is the leader of the
    partition, and an older leader is fenced by its epoch.
    """
    combined = sorted(batches)
    for update in updates:
        combined = _overlay(combined, update)
    return merge(_cut(batch, start_offset) for batch in combined if batch[1] >= start_offset)


def merge(batches: Iterable[StateBatch]) -> list[StateBatch]:
    """Join neighbours with the same state; `batches` are in the order of offsets."""
    merged: list[StateBatch] = []
    for batch in batches:
        last = merged[-1] if merged else None
        if last is not None and last[1] + 1 == batch[0] and last[2:] == batch[2:]:
            merged[-1] = last._replace(last_offset=batch.last_offset)
        else:
            merged.append(batch)
    return merged


def _overlay(batches: list[StateBatch], update: StateBatch) -> list[StateBatch]:
    if not batches or batches[-1].last_offset < update.first_offset:
        return [*batches, update]  # as nearly always
    before = [
        batch._replace(last_offset=min(batch.last_offset, update.first_offset - 1))
        for batch in batches
        if batch.first_offset < update.first_offset
    ]
    after = [
        batch._replace(first_offset=max(batch.first_offset, update.last_offset + 1))
        for batch in batches
        if batch.last_offset > update.last_offset
    ]
    return [*before, update, *after]


def _cut(batch: StateBatch, start_offset: int) -> StateBatch:
    return batch._replace(first_offset=max(batch.first_offset, start_offset))
