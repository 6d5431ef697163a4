"""All that one run left behind, for the checks to judge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from delivery_log import Batch, Record, committed

Place = tuple[str, int]
"""A topic and a partition of it."""


@dataclass(frozen=True, slots=True)
class CommittedRead:
    """What a read_committed Fetch gave, after the client has left out what it was told to."""

    place: Place
    start: int
    end: int
    shown: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A worker that ended by itself, with nobody of its name beside it."""

    slot: str
    incarnation: int
    exit_code: int


@dataclass(slots=True)
class History:
    mode: str
    input: str
    output: str
    group: str
    logs: dict[Place, list[Batch]] = field(default_factory=dict)
    """Each partition from its first offset on, as read_uncommitted shows it, followed live."""
    again: list[tuple[Place, Batch]] = field(default_factory=list)
    """Batches that were read a second time, later."""
    committed_reads: list[CommittedRead] = field(default_factory=list)
    series: dict[tuple[Place, str], list[int]] = field(default_factory=dict)
    """Values that must never go back: `high watermark`, `last stable offset`, ..."""
    group_offsets: dict[Place, list[int]] = field(default_factory=dict)
    """What OffsetFetch answered, one after another; -1 is none."""
    group_batches: list[Batch] = field(default_factory=list)
    """`__consumer_offsets`."""
    transaction_batches: list[Batch] = field(default_factory=list)
    """`__transaction_state`."""
    given_up: list[GivenUp] = field(default_factory=list)
    zombies: Counter[str] = field(default_factory=Counter)
    """By slot: workers that were stopped and went on beside their successor."""
    journals: dict[str, list[list[Any]]] = field(default_factory=dict)
    """By worker: `slot.incarnation`."""
    observers: list[str] = field(default_factory=list)
    """Those of the journals that only read."""
    accidents: list[str] = field(default_factory=list)
    """What the run itself saw go wrong: a broker that died unasked, a reader that failed."""

    def places(self, topic: str) -> list[Place]:
        return sorted(place for place in self.logs if place[0] == topic)

    def visible(self, topic: str) -> list[Record]:
        """What read_committed must show of a topic, by the markers in its logs."""
        return [record for place in self.places(topic) for record in self.visible_at(place)]

    def visible_at(self, place: Place) -> list[Record]:
        return committed(self.logs[place])

    def entries(self, kind: str) -> Iterator[list[Any]]:
        """The journal lines of one kind, of all workers, without the word itself."""
        for lines in self.journals.values():
            for line in lines:
                if line[0] == kind:
                    yield line[1:]
