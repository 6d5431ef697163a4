"""A task: one sub-topology for one partition. All that happens to a record happens here.

The same code runs under Spark and under TopologyTestDriver; they differ in what gives the cells.

    rows = task.process(in_order(rows))     each record through the nodes, stream time goes on
    rows += task.punctuate(now_ms)          what was scheduled by the clock
    rows += task.commit()                   caches are flushed, times are kept in cells

Stream time is the largest timestamp that the task has seen. What must outlive the process, beside
the stores, lies in cells of the task's own: stream time, the next time of each schedule, numbers
that nodes remember, and what windowed stores have seen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, repeat
from operator import itemgetter
from typing import Any, Final

from ottla.client.serde import is_infrastructure
from ottla.clock import Clock
from ottla.engine.blame import node_of
from ottla.engine.cells import Cells
from ottla.engine.ends import Entries, sink_of
from ottla.engine.failures import Failure, FailureKind, OnFailure, StreamsError, fail
from ottla.engine.graph import ProcessorNode, Repartition, Sink, changelog_topic
from ottla.engine.ordering import in_order as in_order
from ottla.engine.processors import (
    Cancellable,
    Context,
    Deliver,
    PunctuationType,
)
from ottla.engine.records import AnyRecord, Input, Output, Record, RecordMetadata
from ottla.engine.serdes import LONG
from ottla.engine.stores import AnyStore
from ottla.engine.subtopologies import SubTopology

TASK_CELLS: Final = "__task"
NEVER: Final = 2**63 - 1
BATCH_MIN: Final = 64
"""Fewer records are read one by one: it is sooner done."""
BATCH_MAX: Final = 8192
"""So many are read at once, so that no more of them are in memory twice."""
AFTERWARDS: Final = -1
"""The place of a schedule that was not made by `init`: nobody could make it again."""


class Task:
    """`open_cells` gives the cells of a store, by name; TASK_CELLS are the task's own.

    `partitions_of` says how many partitions a topic has, for partitioners; without it they are not
    asked. `global_stores` are stores that somebody else keeps up to date. `guarded` calls
    `on_failure` for each node on its own, so that others go on with the record; it costs a call
    for each node and record.
    """

    def __init__(
        self,
        subtopology: SubTopology,
        number: int,
        open_cells: Callable[[str], Cells],
        clock: Clock,
        *,
        application_id: str = "",
        caching: bool = True,
        on_failure: OnFailure = fail,
        guarded: bool = False,
        partitions_of: Callable[[str], int] | None = None,
        global_stores: Mapping[str, AnyStore] | None = None,
    ) -> None:
        self.subtopology = subtopology
        self.number = number
        self.task_id = f"{subtopology.number}_{number}"
        self.application_id = application_id
        self.caching = caching
        self.serdes = subtopology.serdes
        self.stream_time = -1
        self.numbers: dict[str, int] = {}
        self._clock = clock
        self._on_failure = on_failure
        self._guarded = guarded
        self._row: Input | None = None
        self._marks: list[int] | None = None
        self._outputs: list[Output] = []
        self._flushes: list[tuple[str, Callable[[], None]]] = []
        self._schedules: list[Cancellable] = []
        self._places: dict[str, int] = {}
        self._beginning = True
        self._stream_due = NEVER
        self._commit_asked = False
        self._own = open_cells(TASK_CELLS) if subtopology.stateful else None
        self._kept: dict[bytes, bytes] = {}
        self.stores: dict[str, AnyStore] = dict(global_stores or {})
        for name, spec in subtopology.stores.items():
            topic = changelog_topic(application_id, name)
            self.stores[name] = spec.open(open_cells(name), topic=topic)
        self._restore()
        self._steps: dict[str, Deliver] = {}
        self._processors = {node.name: node.supplier() for node in subtopology.nodes}
        self._entries = self._wire(partitions_of)
        self._beginning = False

    # -- what the owner of the task calls

    def process(self, rows: Iterable[Input]) -> list[Output]:
        """Records in the order in which they are given; what they send to topics."""
        marks, outputs = self._marks, self._outputs
        last = None
        for row, decoded in self._with_decoded(iter(rows)):
            topic, _, _, timestamp, key, value, headers, _, _ = row
            if marks is not None:
                marks.append(len(outputs))
            if topic != last:
                if row.origin and not self.reads(topic):
                    # What a prefix could not process and wrote to a dead letter topic.
                    outputs.append(Output(topic, key, value, timestamp, headers))
                    continue
                entry = self._entries[topic]
                read_key, read_value = entry.key.deserialize, entry.value.deserialize
                reads_headers, deliver = entry.reads_headers, entry.deliver
                extract, last = entry.extract, topic
            self._row = row
            try:
                record: AnyRecord
                if decoded is not None:
                    record = decoded
                elif reads_headers:
                    record = entry.record(row)
                else:
                    record = Record(
                        read_key(topic, key), read_value(topic, value), timestamp, headers
                    )
                if extract is not None:
                    timestamp = record.timestamp = extract(record, self.stream_time)
            except Exception as error:
                self._failed(FailureKind.DESERIALIZATION, entry.node, None, error)
                continue
            if timestamp > self.stream_time:
                self.stream_time = timestamp
            elif timestamp < 0:
                entry.negative(row)
                continue
            try:
                deliver(record)
                if self.stream_time >= self._stream_due:
                    self._after_record()
            except StreamsError:
                raise
            except Exception as error:
                node = node_of(error, self._steps) or entry.node
                self._failed(FailureKind.PROCESSING, node, record, error)
        return self._take()

    def _with_decoded(self, rows: Iterator[Input]) -> Iterator[tuple[Input, AnyRecord | None]]:
        """In portions: a batch may be all that there is in a topic."""
        while some := list(islice(rows, BATCH_MAX)):
            yield from zip(some, self._decoded(some), strict=True)

    def _decoded(self, rows: Sequence[Input]) -> Iterable[AnyRecord | None]:
        """Records of formats that read a batch faster than one value; None for all others.

        Bytes do not depend on what happened before, so that records may be read long before their
        turn. One that can't be read is read again in its turn, and fails there.
        """
        if len(rows) < BATCH_MIN:
            return repeat(None, len(rows))
        by_topic: dict[str, list[int]] = {}
        for topic, some in groupby(enumerate(rows), lambda placed: placed[1][0]):
            by_topic.setdefault(topic, []).extend(map(itemgetter(0), some))
        found: list[AnyRecord | None] = [None] * len(rows)
        for topic, places in by_topic.items():
            entry = self._entries.find(topic)
            if entry is None:
                continue
            if len(by_topic) == 1:
                return entry.records(rows) or found
            records = entry.records([rows[place] for place in places])
            if records is not None:
                for place, record in zip(places, records, strict=True):
                    found[place] = record
        return found

    def in_order(self, rows: Iterable[Input]) -> list[Input]:
        """As tasks take them; a timestamp extractor decides about the order, too."""
        if not any(each.extract for each in self._entries.values()):
            return in_order(rows)
        return in_order(rows, self._extracted)

    def process_marked(self, rows: Iterable[Input]) -> tuple[list[Output], list[int]]:
        """The same, and how much had come out before each of the rows."""
        self._marks = []
        try:
            return self.process(rows), self._marks
        finally:
            self._marks = None

    def punctuate(self, now_ms: int) -> list[Output]:
        """What is due by the clock."""
        self._punctuate(PunctuationType.WALL_CLOCK_TIME, now_ms)
        return self._take()

    def commit(self) -> list[Output]:
        """Flushes the caches; the cells hold all that a new task needs to go on."""
        self._flush()
        if self._own is not None:
            self._keep(b"stream-time", LONG.pack(self.stream_time))
            if self.numbers:
                self._keep(b"numbers", json.dumps(self.numbers).encode())
            for name in self.subtopology.stores:
                saved = self.stores[name].saved()
                if saved:
                    self._keep(b"store:" + name.encode(), saved)
            for each in self._schedules:
                if each.place >= 0:
                    self._keep(_place(each.node, each.place), LONG.pack(each.next_ms))
        return self._take()

    def reads(self, topic: str) -> bool:
        """Whether rows of this topic enter here."""
        return self._entries.find(topic) is not None

    def close(self) -> None:
        for processor in self._processors.values():
            processor.close()

    # -- what contexts ask for (Host)

    def store(self, name: str) -> Any:
        return self.stores[name]

    def wall_clock_time(self) -> int:
        return self._clock.now_ms()

    def record_metadata(self) -> RecordMetadata | None:
        row = self._row
        # An Input begins with the fields of RecordMetadata, whose own constructor is slow.
        return None if row is None else tuple.__new__(RecordMetadata, row[:3])

    def ask_for_commit(self) -> None:
        self._commit_asked = True
        self._stream_due = -1

    def on_commit(self, node: str, flush: Callable[[], None]) -> None:
        self._flushes.append((node, flush))

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]
    ) -> Cancellable:
        """Stream time: from 0 on, so that the first record is the first time; clock: from now."""
        place = self._places.get(node, 0) if self._beginning else AFTERWARDS
        self._places[node] = place + 1
        first = 0 if kind is PunctuationType.STREAM_TIME else self._clock.now_ms() + interval_ms
        kept = None if self._own is None or place < 0 else self._own.get(_place(node, place))
        if kept is not None:
            (first,) = LONG.unpack(kept)
        made = Cancellable(node, place, interval_ms, kind, callback, first)
        self._schedules.append(made)
        self._reckon_stream_due()
        return made

    # -- inside

    def _wire(self, partitions_of: Callable[[str], int] | None) -> Entries:
        """From the last nodes up, since each is made with those below it; then begun from above."""
        piece = self.subtopology
        children: dict[str, dict[str, Deliver]] = {}

        def hang(name: str, parents: Iterable[str], deliver: Deliver) -> None:
            for parent in parents:
                children[parent] = {name: deliver} | children.get(parent, {})

        contexts: dict[str, Context] = {}
        nodes: dict[str, ProcessorNode] = {each.name: each for each in piece.nodes}
        ends: dict[str, Sink | Repartition] = {each.name: each for each in piece.sinks}
        ends |= {each.sink_name: each for each in piece.rekeyed}
        for name in reversed(piece.order):
            if name in ends:
                end = ends[name]
                send = sink_of(end, self.application_id, self._outputs, self._unsent, partitions_of)
                hang(name, end.parents, send)
            elif name in nodes:
                node = nodes[name]
                below, stores = children.get(name, {}), frozenset(node.stores)
                made = contexts[name] = Context(self, name, children=below, stores=stores)
                hang(name, node.parents, self._deliver(node, made.downstream))
        for node in piece.nodes:
            self._processors[node.name].init(contexts[node.name])
        return Entries(piece, self.application_id, children)

    def _deliver(self, node: ProcessorNode, downstream: Deliver) -> Deliver:
        process = self._steps[node.name] = self._processors[node.name].step(downstream)
        if not self._guarded:
            return process

        def guarded(record: AnyRecord) -> None:
            try:
                process(record)
            except StreamsError:
                raise
            except Exception as error:
                self._failed(FailureKind.PROCESSING, node.name, record, error)

        return guarded

    def _unsent(self, node: str, record: AnyRecord, error: Exception) -> None:
        self._failed(FailureKind.PRODUCTION, node, record, error)

    def _extracted(self, row: Input) -> int:
        """When a record was, by its extractor; what can't be read is dealt with in its turn."""
        entry = self._entries.find(row.topic)
        if entry is None or entry.extract is None:
            return row.timestamp
        try:
            return entry.extract(entry.record(row), self.stream_time)
        except Exception:
            return row.timestamp

    def _failed(
        self, kind: FailureKind, node: str, record: AnyRecord | None, error: Exception
    ) -> None:
        failure = Failure(kind, self.task_id, node, self._row, record, error)
        if kind is not FailureKind.PROCESSING and is_infrastructure(error):
            fail(failure)  # no fault of the record, which must not be left out
        self._outputs.extend(self._on_failure(failure))

    def _after_record(self) -> None:
        if self._commit_asked:
            self._commit_asked = False
            self._flush()
        self._punctuate(PunctuationType.STREAM_TIME, self.stream_time)
        self._reckon_stream_due()

    def _punctuate(self, kind: PunctuationType, now_ms: int) -> None:
        row, self._row = self._row, None
        while due := [
            each
            for each in self._schedules
            if each.kind is kind and not each.cancelled and each.next_ms <= now_ms
        ]:
            each = min(due, key=lambda one: one.next_ms)
            missed = (now_ms - each.next_ms) // each.interval_ms
            each.next_ms += (missed + 1) * each.interval_ms
            try:
                each.callback(now_ms)
            except StreamsError:
                raise
            except Exception as error:
                self._failed(FailureKind.PROCESSING, each.node, None, error)
        self._row = row

    def _reckon_stream_due(self) -> None:
        kind = PunctuationType.STREAM_TIME
        self._schedules = [each for each in self._schedules if not each.cancelled]
        due = [each.next_ms for each in self._schedules if each.kind is kind]
        self._stream_due = -1 if self._commit_asked else min(due, default=NEVER)

    def _flush(self) -> None:
        self._row = None
        for node, flush in self._flushes:
            try:
                flush()
            except StreamsError:
                raise
            except Exception as error:
                self._failed(FailureKind.PROCESSING, node, None, error)

    def _take(self) -> list[Output]:
        taken = self._outputs.copy()
        self._outputs.clear()
        return taken

    def _restore(self) -> None:
        if self._own is None:
            return
        stream_time = self._own.get(b"stream-time")
        if stream_time is not None:
            (self.stream_time,) = LONG.unpack(stream_time)
        self.numbers.update(json.loads(self._own.get(b"numbers") or b"{}"))
        for name in self.subtopology.stores:
            saved = self._own.get(b"store:" + name.encode())
            if saved is not None:
                self.stores[name].restore(saved)

    def _keep(self, key: bytes, value: bytes) -> None:
        if self._own is not None and self._kept.get(key) != value:
            self._own.put(key, value)
            self._kept[key] = value


class Prefixed:
    """Rows on their way to a task: read, given their new keys, and told where they come from.

    What comes out are rows that `Task.process` of the sub-topology behind takes, in any order.
    """

    def __init__(self, task: Task) -> None:
        self._task = task

    def process(self, rows: Iterable[Input]) -> list[Input]:
        given = rows if isinstance(rows, list | tuple) else list(rows)
        made, marks = self._task.process_marked(given)
        marks.append(len(made))
        found: list[Input] = []
        for number, row in enumerate(given):
            _, partition, offset, *_ = row
            origin = row.topic
            for turn, each in enumerate(made[marks[number] : marks[number + 1]]):
                topic, key, value, timestamp, headers, _ = each
                found.append(
                    Input(topic, partition, offset, timestamp, key, value, headers, turn, origin)
                )
        return found


def _place(node: str, place: int) -> bytes:
    return f"punctuation:{node}:{place}".encode()
