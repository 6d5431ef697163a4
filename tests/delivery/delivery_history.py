"""The history of one run, which the checks evaluate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from delivery_log import Batch, Record, committed

TopicPartitionKey = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """The records of a read_committed Fetch, without those that it lists as aborted."""

    place: TopicPartitionKey
    start: int
    end: int
    shown: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A worker that exited by itself, while it had no zombie of its name."""

    slot: str
    incarnation: int
    exit_code: int


@dataclass(slots=True)
class History:
    mode: str
    input: str
    output: str
    group: str
    logs: dict[TopicPartitionKey, list[Batch]] = field(default_factory=dict)
    """Each partition from its first offset on, as followed live with read_uncommitted."""
    again: list[tuple[TopicPartitionKey, Batch]] = field(default_factory=list)
    """Batches that were read a second time, later."""
    committed_reads: list[CommittedRead] = field(default_factory=list)
    series: dict[tuple[TopicPartitionKey, str], list[int]] = field(default_factory=dict)
    """Values that must never go back: `high watermark`, `last stable offset`, ..."""
    group_offsets: dict[TopicPartitionKey, list[int]] = field(default_factory=dict)
    """The answers of OffsetFetch in order; -1 is no offset."""
    group_batches: list[Batch] = field(default_factory=list)
    """`__consumer_offsets`."""
    transaction_batches: list[Batch] = field(default_factory=list)
    """`__transaction_state`."""
    given_up: list[GivenUp] = field(default_factory=list)
    zombies: Counter[str] = field(default_factory=Counter)
    """By slot: workers that were stopped and continued beside their successor."""
    journals: dict[str, list[list[Any]]] = field(default_factory=dict)
    """By worker: `slot.incarnation`."""
    observers: list[str] = field(default_factory=list)
    """The journals of observers."""
    accidents: list[str] = field(default_factory=list)
    """What the run itself saw fail: a broker that died unexpectedly, a failed reader."""

    def places(self, topic: str) -> list[TopicPartitionKey]:
        return sorted(place for place in self.logs if place[0] == topic)

    def visible(self, topic: str) -> list[Record]:
        """The records of a topic that read_committed must return, by the markers in its logs."""
        return [record for place in self.places(topic) for record in self.visible_at(place)]

    def visible_at(self, place: TopicPartitionKey) -> list[Record]:
        return committed(self.logs[place])

    def entries(self, kind: str) -> Iterator[list[Any]]:
        """The journal lines of one kind, of all workers, without the kind itself."""
        for lines in self.journals.values():
            for line in lines:
                if line[0] == kind:
                    yield line[1:]
