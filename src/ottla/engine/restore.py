"""What an application needs to go on without its state directory, kept in a topic.

`<application.id>-tasks-<n>-changelog` is compacted, and has a partition for each task of
sub-topology n:

    store, 0, cell          what is in the cell: of the task itself, and of stores without a name
    0, topic, 0, partition  the offset of the input that is read next, behind the number of the
                            checkpoint's first batch: what a later one says counts

It is written in the transaction of a batch, with its output and the changelogs of named stores: all
of them tell of the same moment. A position is told by whoever made something of the records before
it; records that came to nothing may be read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.fetching import Fetching, Range
from ottla.client.record import TopicPartition
from ottla.engine.changelogs import changelog_cell
from ottla.engine.graph import changelog_topic
from ottla.engine.packed_rows import chunk_inputs
from ottla.engine.records import Input, Output
from ottla.engine.state_file import Change
from ottla.engine.subtopologies import SubTopology
from ottla.spark.checkpoints import Position
from ottla.spark.limits import EARLIEST, LATEST
from ottla.spark.reading import decode

POLL_S: Final = 120.0
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
BETWEEN: Final = b"\0"

Ends = Mapping[str, Sequence[int]]
"""Topic -> where each of its partitions ends."""
Places = Mapping[tuple[str, int], int]
"""Topic and partition -> the offset that is read next."""
_Found = dict[tuple[str, str], tuple[int, int]]
"""Topic and partition -> the first batch of whoever told, and the offset."""


def tasks_topic(application_id: str, number: int) -> str:
    """Of a sub-topology."""
    return changelog_topic(application_id, f"tasks-{number}")


def cell_row(topic: str, change: Change, timestamp: int, task: int) -> Output:
    store, key, value = change
    return Output(topic, store.encode() + BETWEEN + key, value, timestamp, (), task)


def position_rows(
    topic: str, places: Places, first: int, timestamp: int, task: int
) -> list[Output]:
    return [
        Output(topic, _position_key(*place), b"%d %d" % (first, offset), timestamp, (), task)
        for place, offset in places.items()
    ]


@dataclass(frozen=True, slots=True)
class Kept:
    """What the topics have of a sub-topology: its positions, and how far they are to be read."""

    positions: Position = field(default_factory=dict)
    firsts: Position = field(default_factory=dict)
    """The first batch of whoever told each of them."""
    ends: Ends = field(default_factory=dict)


class Topics:
    """The topics of a sub-topology's tasks, to be read by whoever has nothing else."""

    def __init__(
        self,
        piece: SubTopology,
        application_id: str,
        servers: str,
        settings: Mapping[str, Setting],
    ) -> None:
        self._tasks = tasks_topic(application_id, piece.number)
        self._changelogs = {
            changelog_topic(application_id, name): spec
            for name, spec in piece.stores.items()
            if spec.changelog
        }
        self._where = (servers, settings)

    def kept(self) -> Kept:
        """All that is committed now."""
        with closing(ClusterClient(*self._where)) as brokers:
            ends = {topic: ends_of(brokers, topic) for topic in (self._tasks, *self._changelogs)}
            found: _Found = {}
            for number, end in enumerate(ends[self._tasks]):
                for row in records_of(brokers, self._tasks, number, end):
                    _note_position(found, row)
        positions: Position = {}
        firsts: Position = {}
        for (topic, partition), (first, offset) in found.items():
            positions.setdefault(topic, {})[partition] = offset
            firsts.setdefault(topic, {})[partition] = first
        return Kept(positions, firsts, ends) if positions else Kept()

    def cells(self, ends: Ends, task: int) -> Iterator[Change]:
        """Of one task, as they were at these ends; a cell may come several times."""
        with closing(ClusterClient(*self._where)) as brokers:
            for row in _upto(brokers, self._tasks, ends, task):
                store, _, key = (row.key or b"").partition(BETWEEN)
                if store:
                    yield store.decode(), key, row.value
            for topic, spec in self._changelogs.items():
                for row in _upto(brokers, topic, ends, task):
                    if row.key is not None:
                        yield spec.name, row.key, changelog_cell(spec, row.value, row.timestamp)


def _upto(brokers: ClusterClient, topic: str, ends: Ends, task: int) -> Iterable[Input]:
    """A store that is newer than the ends has nothing to be restored."""
    return records_of(brokers, topic, task, ends[topic][task]) if topic in ends else ()


def ends_of(brokers: ClusterClient, topic: str) -> list[int]:
    """Of all partitions: behind what is committed."""
    found = brokers.patiently(lambda: brokers.topic(topic))
    places = [TopicPartition(topic, each) for each in sorted(found.leaders)]
    offsets = brokers.offsets(dict.fromkeys(places, LATEST), read_committed=True)
    return [offsets[each] or 0 for each in places]


def records_of(brokers: ClusterClient, topic: str, partition: int, end: int) -> Iterator[Input]:
    """The committed ones, from the first that is there."""
    place = TopicPartition(topic, partition)
    first = brokers.offsets({place: EARLIEST}, read_committed=True)[place] or 0
    fetching = Fetching(
        brokers,
        read_committed=True,
        fail_on_data_loss=True,
        poll_timeout_s=POLL_S,
        fetch_bytes_max=FETCH_BYTES_MAX,
    )
    for fetched in fetching.fetch([Range(topic, partition, first, end)]):
        for chunk in decode(fetched, with_headers=False, committed=True):
            yield from chunk_inputs(chunk)


def _position_key(topic: str, partition: int) -> bytes:
    return BETWEEN + topic.encode() + BETWEEN + b"%d" % partition


def _note_position(found: _Found, row: Input) -> None:
    """Several tasks may tell of one partition: the records that have gone furthest are done."""
    store, _, place = (row.key or b"").partition(BETWEEN)
    if not store and row.value is not None:
        topic, _, partition = place.decode().partition(BETWEEN.decode())
        first, _, offset = row.value.partition(b" ")
        known = found.get((topic, partition), (0, 0))
        found[topic, partition] = max(known, (int(first), int(offset)))
