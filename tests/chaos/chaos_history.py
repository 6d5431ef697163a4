"""The history of a run of a cluster: that of tests/delivery, and what each broker answered.

A history is plain data. A run writes what it sees of the brokers into `cluster.journal`, a line
each, so that a run that found something can be judged again:

    ["poll", at_s, broker, life, topic, partition, hex]   the bytes of one Fetch, as they came
    ["led", at_s, broker, topic, partition, epoch]        it answered as the leader in that epoch
    ["said", at_s, broker, topic, partition, epoch, leader]      its Metadata
    ["mark", at_s, broker, life, topic, partition, epoch, name, value]
    ["healed", at_s, took_s or null, limit_s, what]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from delivery_history import History, TopicPartitionKey
from delivery_log import Batch, batches_of

OFFSETS: TopicPartitionKey = ("__consumer_offsets", 0)
TRANSACTIONS: TopicPartitionKey = ("__transaction_state", 0)
FOLLOWING = -1
"""In place of an epoch: this broker was not the leader."""


@dataclass(frozen=True, slots=True)
class Poll:
    """A batch that a broker returned to a reader."""

    at_s: float
    broker: int
    place: TopicPartitionKey
    batch: Batch


@dataclass(frozen=True, slots=True)
class Leadership:
    """A broker that acted as the leader of an epoch, or (`named`) that a broker named as such."""

    at_s: float
    broker: int
    place: TopicPartitionKey
    epoch: int
    named: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """A number that may only rise, as one process of a broker reported it."""

    at_s: float
    broker: int
    life: int
    place: TopicPartitionKey
    epoch: int
    """In which it led, or FOLLOWING."""
    name: str
    value: int


@dataclass(frozen=True, slots=True)
class HealTime:
    """The end of all faults, and how long it took until everything was well."""

    at_s: float
    took_s: float | None
    """None: it did not heal within the limit."""
    limit_s: float
    what: str
    """What was still wrong at the last check."""


@dataclass(slots=True)
class ClusterHistory(History):
    polls: list[Poll] = field(default_factory=list)
    leaderships: list[Leadership] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    healings: list[HealTime] = field(default_factory=list)
    replicas: dict[tuple[int, TopicPartitionKey], list[Batch]] = field(default_factory=dict)
    """By broker and partition: what is on its disk at the end."""

    def merge(self) -> None:
        """The logs of one broker's history, from what all brokers have shown."""
        seen = merged(self.polls)
        self.logs = {place: seen.get(place, []) for place in self.logs}
        self.group_batches = seen.get(OFFSETS, [])
        self.transaction_batches = seen.get(TRANSACTIONS, [])


def note(history: ClusterHistory, line: list[Any]) -> None:
    """One line of `cluster.journal`."""
    kind, at_s, *rest = line
    if kind == "poll":
        broker, _, topic, partition, data = rest
        for batch in batches_of(bytes.fromhex(data)):
            history.polls.append(Poll(at_s, broker, (topic, partition), batch))
    elif kind == "led":
        broker, topic, partition, epoch = rest
        history.leaderships.append(Leadership(at_s, broker, (topic, partition), epoch))
    elif kind == "said":
        _, topic, partition, epoch, leader = rest
        history.leaderships.append(Leadership(at_s, leader, (topic, partition), epoch, named=True))
    elif kind == "mark":
        broker, life, topic, partition, epoch, name, value = rest
        history.marks.append(Mark(at_s, broker, life, (topic, partition), epoch, name, value))
    elif kind == "healed":
        history.healings.append(HealTime(at_s, *rest))


def read_lines(path: Path) -> Iterator[list[Any]]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)


def merged(polls: Iterable[Poll]) -> dict[TopicPartitionKey, list[Batch]]:
    """Each partition as readers have seen it; that all saw the same is a separate check."""
    seen: dict[TopicPartitionKey, dict[int, Batch]] = {}
    for poll in polls:
        seen.setdefault(poll.place, {}).setdefault(poll.batch.base_offset, poll.batch)
    return {place: [of[base] for base in sorted(of)] for place, of in seen.items()}


def replicas_on_disk(
    directory: Path, places: Iterable[TopicPartitionKey]
) -> dict[TopicPartitionKey, list[Batch]]:
    """The batches in a broker's data directory, read without the broker's code."""
    found: dict[TopicPartitionKey, list[Batch]] = {}
    for topic, partition in places:
        folder = directory / f"{topic}-{partition}"
        if not folder.is_dir():
            continue
        segments = sorted(folder.glob("*.log"))
        data = [batch for path in segments for batch in batches_of(path.read_bytes())]
        found[topic, partition] = data
    return found
