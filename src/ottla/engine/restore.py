"""Restores an application without its state directory, from topics.

`<application.id>-tasks-<n>-changelog` is compacted and has a partition for each task of
sub-topology n. Its keys and values:

    store, 0, cell          the cell's value, for the task's own cells and for unnamed stores
    0, topic, 0, partition  the first batch of the checkpoint, and the next offset of the input;
                            an entry of a later checkpoint wins

The transaction of a batch writes it together with the output and the changelogs of named stores, so
all of them are consistent. A task writes a position only if the records before it had an effect;
records without effect may be read again.

A position carries its checkpoint's first batch because a reset may move the input back: then the
smaller offset of the newer checkpoint must win over the larger one of the older.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ottla.client.delivery import Setting
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import OffsetRange, RangeFetcher
from ottla.client.record import TopicPartition
from ottla.engine.changelogs import changelog_cell
from ottla.engine.graph import changelog_topic
from ottla.engine.packed_rows import chunk_input_rows
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.state_file import CellChange
from ottla.engine.subtopologies import Subtopology
from ottla.spark.checkpoints import Position
from ottla.spark.chunks import decode
from ottla.spark.limits import EARLIEST, LATEST

POLL_S: Final = 120.0
FETCH_BYTES_MAX: Final = 8 * 1024 * 1024
BETWEEN: Final = b"\0"

EndOffsets = Mapping[str, Sequence[int]]
"""Topic -> the end offset of each partition."""
InputOffsets = Mapping[tuple[str, int], int]
"""Topic and partition -> the next offset."""
_Found = dict[tuple[str, str], tuple[int, int]]
"""Topic and partition -> the first batch of the writer's checkpoint, and the offset."""


def tasks_topic(application_id: str, number: int) -> str:
    """The changelog topic of a sub-topology's tasks."""
    return changelog_topic(application_id, f"tasks-{number}")


def cell_row(topic: str, change: CellChange, timestamp: int, task: int) -> OutputRow:
    store, key, value = change
    return OutputRow(topic, store.encode() + BETWEEN + key, value, timestamp, (), task)


def position_rows(
    topic: str, places: InputOffsets, first: int, timestamp: int, task: int
) -> list[OutputRow]:
    return [
        OutputRow(topic, _position_key(*place), b"%d %d" % (first, offset), timestamp, (), task)
        for place, offset in places.items()
    ]


@dataclass(frozen=True, slots=True)
class RestorePoint:
    """Where a sub-topology resumes: its input positions, and the ends of its changelogs at the same
    moment."""

    positions: Position = field(default_factory=dict)
    firsts: Position = field(default_factory=dict)
    """The first batch of the checkpoint that wrote each position."""
    ends: EndOffsets = field(default_factory=dict)


class ChangelogReader:
    """Reads the changelogs of a sub-topology's tasks when there are no state files."""

    def __init__(
        self,
        piece: Subtopology,
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

    def restore_point(self) -> RestorePoint:
        """What is committed now. With exactly-once, the caller has fenced all other writers before
        (StartingPositions), so that all topics are at the same batch."""
        with closing(ClusterClient(*self._where)) as brokers:
            ends = {
                topic: end_offsets(brokers, topic) for topic in (self._tasks, *self._changelogs)
            }
            found: _Found = {}
            for number, end in enumerate(ends[self._tasks]):
                for row in committed_records(brokers, self._tasks, number, end):
                    _note_position(found, row)
        positions: Position = {}
        firsts: Position = {}
        for (topic, partition), (first, offset) in found.items():
            positions.setdefault(topic, {})[partition] = offset
            firsts.setdefault(topic, {})[partition] = first
        return RestorePoint(positions, firsts, ends) if positions else RestorePoint()

    def cells(self, ends: EndOffsets, task: int) -> Iterator[CellChange]:
        """The cells of one task up to these ends; the last value of a cell wins."""
        with closing(ClusterClient(*self._where)) as brokers:
            for row in _upto(brokers, self._tasks, ends, task):
                store, _, key = (row.key or b"").partition(BETWEEN)
                if store:
                    yield store.decode(), key, row.value
            for topic, spec in self._changelogs.items():
                for row in _upto(brokers, topic, ends, task):
                    if row.key is not None:
                        yield spec.name, row.key, changelog_cell(spec, row.value, row.timestamp)


def _upto(brokers: ClusterClient, topic: str, ends: EndOffsets, task: int) -> Iterable[InputRow]:
    """Nothing for a store that was added after the ends were recorded."""
    return committed_records(brokers, topic, task, ends[topic][task]) if topic in ends else ()


def end_offsets(brokers: ClusterClient, topic: str) -> list[int]:
    """The last stable offset of each partition."""
    found = brokers.with_retries(lambda: brokers.topic(topic))
    places = [TopicPartition(topic, partition) for partition in sorted(found.leaders)]
    offsets = brokers.offsets(dict.fromkeys(places, LATEST), read_committed=True)
    return [offsets[place] or 0 for place in places]


def committed_records(
    brokers: ClusterClient, topic: str, partition: int, end: int
) -> Iterator[InputRow]:
    """The committed records of a partition up to `end`, from its log start."""
    place = TopicPartition(topic, partition)
    first = brokers.offsets({place: EARLIEST}, read_committed=True)[place] or 0
    fetching = RangeFetcher(
        brokers,
        read_committed=True,
        fail_on_data_loss=True,
        poll_timeout_s=POLL_S,
        fetch_bytes_max=FETCH_BYTES_MAX,
    )
    for fetched in fetching.fetch([OffsetRange(topic, partition, first, end)]):
        for chunk in decode(fetched, with_headers=False, committed=True):
            yield from chunk_input_rows(chunk)


def _position_key(topic: str, partition: int) -> bytes:
    return BETWEEN + topic.encode() + BETWEEN + b"%d" % partition


def _note_position(found: _Found, row: InputRow) -> None:
    """Several tasks may write a position of one partition: the furthest of the newest checkpoint
    wins."""
    store, _, place = (row.key or b"").partition(BETWEEN)
    if not store and row.value is not None:
        topic, _, partition = place.decode().partition(BETWEEN.decode())
        first, _, offset = row.value.partition(b" ")
        known = found.get((topic, partition), (0, 0))
        found[topic, partition] = max(known, (int(first), int(offset)))
