"""A task: one sub-topology for one partition. All that happens to a record happens here.

The same code runs on Spark and in TopologyTestDriver; only the cells below the stores differ.

    rows = task.process(in_record_order(rows))   each record through the nodes; advances stream time
    cells = task.process_packed(cells)           the same for packed rows, in order and by columns
    rows += task.punctuate(now_ms)               wall-clock punctuations
    rows += task.commit()                        flushes caches, stores times in the task's cells

Stream time is the largest timestamp that the task has seen. The task's own cells hold what must
survive the process besides the stores: stream time, the next time of each schedule, the numbers of
nodes, and the observed time of windowed stores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, groupby, islice, repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from ottla.client.serde import is_infrastructure
from ottla.clock import Clock
from ottla.engine.cells import Cells
from ottla.engine.failure_location import failed_node
from ottla.engine.failures import ExceptionHandler, Failure, FailureKind, StreamsError, fail
from ottla.engine.graph import ProcessorNode, RepartitionNode, SinkNode, changelog_topic
from ottla.engine.processors import (
    Cancellable,
    Deliver,
    ProcessorContext,
    PunctuationType,
)
from ottla.engine.record_batch import PORTION, DeliverBatch, RecordBatch, to_nobody
from ottla.engine.record_order import in_record_order as in_record_order
from ottla.engine.records import (
    AnyRecord,
    InputRow,
    OutputColumns,
    OutputRow,
    Record,
    RecordMetadata,
    output_rows,
)
from ottla.engine.stores import StateStore
from ottla.engine.subtopologies import Subtopology
from ottla.engine.task_sources import TaskSource, TaskSources, task_batch_sink, task_sink
from ottla.engine.windowed_serdes import LONG

if TYPE_CHECKING:
    from ottla.engine.input_lanes import Lane, Run

_topic: Final = itemgetter(0)
TASK_CELLS: Final = "__task"
NEVER: Final = 2**63 - 1
BATCH_MIN: Final = 64
"""Fewer records are deserialized one by one, which is faster then."""
BATCH_MAX: Final = PORTION
"""Records deserialized at once: a bound on what is in memory as bytes and as objects."""
RUN_MIN: Final = 16
"""Fewer records of one topic in a row are processed one by one, which is faster then."""
AFTERWARDS: Final = -1
"""The place of a schedule made after `init`: it is not stored, because a restart can't recreate
its callback."""


class StreamTask:
    """`open_cells` opens the cells of a store by name; TASK_CELLS are the task's own.

    `partitions_of` returns a topic's partition count for partitioners; without it they are not
    called. `global_stores` are updated elsewhere. `guarded` calls `on_failure` per node, so that
    sibling nodes still get the record; it costs a call per node and record.
    """

    def __init__(
        self,
        subtopology: Subtopology,
        number: int,
        open_cells: Callable[[str], Cells],
        clock: Clock,
        *,
        application_id: str = "",
        caching: bool = True,
        on_failure: ExceptionHandler = fail,
        guarded: bool = False,
        partitions_of: Callable[[str], int] | None = None,
        global_stores: Mapping[str, StateStore] | None = None,
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
        self._row: InputRow | None = None
        self._marks: list[int] | None = None
        self._outputs: list[OutputRow | OutputColumns] = []
        self._flushes: list[tuple[str, Callable[[], None]]] = []
        self._schedules: list[Cancellable] = []
        self._places: dict[str, int] = {}
        self._beginning = True
        self._stream_due = NEVER
        self._commit_requested = False
        self._task_cells = open_cells(TASK_CELLS) if subtopology.stateful else None
        self._stored: dict[bytes, bytes] = {}
        self.stores: dict[str, StateStore] = dict(global_stores or {})
        for name, spec in subtopology.stores.items():
            topic = changelog_topic(application_id, name)
            self.stores[name] = spec.open(open_cells(name), topic=topic)
        self._restore()
        self._steps: dict[str, Deliver] = {}
        self._processors = {node.name: node.supplier() for node in subtopology.nodes}
        self._entries = self._wire(partitions_of)
        self._extracts = any(entry.extract for entry in self._entries.all)
        self._batched = not self._extracts and any(
            entry.deliver_batch for entry in self._entries.all
        )
        self._tables = frozenset(
            topic for source in subtopology.sources if source.table for topic in source.topics
        )
        self._beginning = False

    # -- called by the task's owner

    def process(self, rows: Iterable[InputRow]) -> list[OutputRow]:
        """Processes rows in the given order and returns the rows they send to topics."""
        self._process_rows(rows)
        return self._take()

    def process_packed(self, cells: Sequence[bytes]) -> list[bytes]:
        """Processes the rows of packed cells in Kafka's order; returns packed rows."""
        # Only here, because TopologyTestDriver works without numpy and pyarrow.
        from ottla.engine.packed_rows import pack_outputs, unpack_input_rows

        runs = self._batched_runs(cells)
        if runs is None:
            rows = chain.from_iterable(map(unpack_input_rows, cells))
            self._process_rows(self.in_order(rows))
        else:
            for lane, begin, end in runs:
                while begin < end:
                    until = min(end, (begin // PORTION + 1) * PORTION)
                    self._process_run(lane, begin, until)
                    begin = until
        packed = list(pack_outputs(self._outputs))
        self._outputs.clear()
        return packed

    def _batched_runs(self, cells: Sequence[bytes]) -> list[Run] | None:
        """None if the rows must be processed in another way."""
        if not self._batched or self._marks is not None or self._stream_due != NEVER:
            return None
        from ottla.engine.input_lanes import lanes_of, runs_in_order

        lanes = lanes_of(cells)
        if not lanes or sum(map(len, lanes)) < BATCH_MIN:
            return None
        if any(self._entries.find(lane.topic) is None for lane in lanes):
            return None
        runs = runs_in_order(lanes, self._tables)
        return None if len(runs) * RUN_MIN > sum(map(len, lanes)) else runs

    def _process_run(self, lane: Lane, begin: int, end: int) -> None:
        source = self._entries[lane.topic]
        batch = lane.read(begin, end, source)
        if batch is None or not self._process_batch(source, batch):
            rows = lane.rows(begin, end)
            self._process_each(rows, repeat(None, len(rows)) if batch is None else batch.records())

    def _process_rows(self, rows: Iterable[InputRow]) -> None:
        left = iter(rows)
        # In portions, because one batch may hold a whole topic.
        while some := list(islice(left, BATCH_MAX)):
            if len(some) < BATCH_MIN:
                self._process_each(some, repeat(None, len(some)))
            else:
                self._process_portion(some)

    def _process_portion(self, rows: Sequence[InputRow]) -> None:
        """Long runs of records from one topic go as batches through nodes that have batch steps."""
        runs = [(topic, list(run)) for topic, run in groupby(rows, _topic)]
        columns = self._deserialized(rows, runs)
        if not self._batched or self._marks is not None or len(runs) * RUN_MIN > len(rows):
            self._process_each(rows, _records(rows, columns))
            return
        ends = dict.fromkeys(columns, 0)
        for topic, run in runs:
            batch, begin = columns[topic], ends[topic]
            ends[topic] = begin + len(run)
            if batch is None:
                self._process_each(run, repeat(None, len(run)))
                continue
            batch = batch.part(begin, ends[topic])
            if not self._process_batch(self._entries[topic], batch):
                self._process_each(run, batch.records())

    def _process_batch(self, source: TaskSource, batch: RecordBatch) -> bool:
        """False if the records must be processed one by one; then there is no trace of them."""
        deliver = source.deliver_batch
        if deliver is None or len(batch) < RUN_MIN or self._stream_due != NEVER:
            return False
        if min(batch.timestamps) < 0:
            return False
        sent = len(self._outputs)
        try:
            deliver(batch)
        except Exception:
            # One by one it fails again, at the record at fault.
            del self._outputs[sent:]
            return False
        self.stream_time = max(self.stream_time, *batch.timestamps)
        return True

    def _process_each(self, rows: Sequence[InputRow], records: Iterable[AnyRecord | None]) -> None:
        """Processes rows one by one; `records` are those that are deserialized already."""
        marks, outputs = self._marks, self._outputs
        last = None
        for row, decoded in zip(rows, records, strict=True):
            topic, _, _, timestamp, key, value, headers, _, _ = row
            if marks is not None:
                marks.append(len(outputs))
            if topic != last:
                if row.origin and not self.reads(topic):
                    # A prefix failed on the record and wrote it to the dead letter queue.
                    outputs.append(OutputRow(topic, key, value, timestamp, headers))
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
                node = failed_node(error, self._steps) or entry.node
                self._failed(FailureKind.PROCESSING, node, record, error)

    def _deserialized(
        self, rows: Sequence[InputRow], runs: Sequence[tuple[str, list[InputRow]]]
    ) -> dict[str, RecordBatch | None]:
        """Records by topic, for formats that deserialize a batch faster than single values; else
        None.

        Deserialization has no side effects, so it can run before earlier records are processed. A
        record that can't be read is read again in its turn, and fails there.
        """
        by_topic: dict[str, list[InputRow]] = {}
        for topic, run in runs:
            by_topic.setdefault(topic, []).extend(run)
        found: dict[str, RecordBatch | None] = {}
        for topic, some in by_topic.items():
            entry = self._entries.find(topic)
            found[topic] = None if entry is None else entry.columns(some)
        return found

    def in_order(self, rows: Iterable[InputRow]) -> list[InputRow]:
        """Kafka's order of processing, by extracted timestamps where there is an extractor."""
        if not self._extracts:
            return in_record_order(rows, tables=self._tables)
        return in_record_order(rows, self._extracted, self._tables)

    def process_marked(self, rows: Iterable[InputRow]) -> tuple[list[OutputRow], list[int]]:
        """Like `process`; also returns how many rows were out before each input row."""
        self._marks = []
        try:
            return self.process(rows), self._marks
        finally:
            self._marks = None

    def punctuate(self, now_ms: int) -> list[OutputRow]:
        """Runs the wall-clock punctuations that are due."""
        self._punctuate(PunctuationType.WALL_CLOCK_TIME, now_ms)
        return self._take()

    def commit(self) -> list[OutputRow]:
        """Flushes the caches. Afterwards the cells hold all that a new task needs to continue."""
        self._flush()
        if self._task_cells is not None:
            self._store_cell(b"stream-time", LONG.pack(self.stream_time))
            if self.numbers:
                self._store_cell(b"numbers", json.dumps(self.numbers).encode())
            for name in self.subtopology.stores:
                saved = self.stores[name].saved()
                if saved:
                    self._store_cell(b"store:" + name.encode(), saved)
            for schedule in self._schedules:
                if schedule.place >= 0:
                    self._store_cell(
                        _punctuation_cell(schedule.node, schedule.place),
                        LONG.pack(schedule.next_ms),
                    )
        return self._take()

    def reads(self, topic: str) -> bool:
        """True if a source of this task reads the topic."""
        return self._entries.find(topic) is not None

    def close(self) -> None:
        for processor in self._processors.values():
            processor.close()

    # -- called by processor contexts

    def store(self, name: str) -> Any:
        return self.stores[name]

    def wall_clock_time(self) -> int:
        return self._clock.now_ms()

    def record_metadata(self) -> RecordMetadata | None:
        row = self._row
        # An Input begins with the fields of RecordMetadata, whose own constructor is slower.
        return None if row is None else tuple.__new__(RecordMetadata, row[:3])

    def request_commit(self) -> None:
        self._commit_requested = True
        self._stream_due = -1

    def on_commit(self, node: str, flush: Callable[[], None]) -> None:
        self._flushes.append((node, flush))

    def schedule(
        self, node: str, interval_ms: int, kind: PunctuationType, callback: Callable[[int], None]
    ) -> Cancellable:
        """A stream-time schedule starts at 0, so the first record triggers it; a wall-clock
        schedule starts now."""
        place = self._places.get(node, 0) if self._beginning else AFTERWARDS
        self._places[node] = place + 1
        first = 0 if kind is PunctuationType.STREAM_TIME else self._clock.now_ms() + interval_ms
        stored = (
            None
            if self._task_cells is None or place < 0
            else self._task_cells.get(_punctuation_cell(node, place))
        )
        if stored is not None:
            (first,) = LONG.unpack(stored)
        made = Cancellable(node, place, interval_ms, kind, callback, first)
        self._schedules.append(made)
        self._reckon_stream_due()
        return made

    # -- inside

    def _wire(self, partitions_of: Callable[[str], int] | None) -> TaskSources:
        """Builds from the sinks up, because a node needs its children; initializes from the sources
        down."""
        piece = self.subtopology
        children: dict[str, dict[str, Deliver]] = {}
        batches: dict[str, DeliverBatch | None] = {}

        def hang(
            name: str, parents: Iterable[str], deliver: Deliver, batch: DeliverBatch | None
        ) -> None:
            for parent in parents:
                # With several children, one of them would get all records before the next one.
                batches[parent] = None if parent in children else batch
                children[parent] = {name: deliver} | children.get(parent, {})

        contexts: dict[str, ProcessorContext] = {}
        nodes: dict[str, ProcessorNode] = {node.name: node for node in piece.nodes}
        ends: dict[str, SinkNode | RepartitionNode] = {sink.name: sink for sink in piece.sinks}
        ends |= {node.sink_name: node for node in piece.rekeyed}
        for name in reversed(piece.order):
            if name in ends:
                end = ends[name]
                send = task_sink(
                    end, self.application_id, self._outputs, self._unsent, partitions_of
                )
                batched = task_batch_sink(end, self.application_id, self._outputs, partitions_of)
                hang(name, end.parents, send, batched)
            elif name in nodes:
                node = nodes[name]
                below, stores = children.get(name, {}), frozenset(node.stores)
                made = contexts[name] = ProcessorContext(self, name, children=below, stores=stores)
                deliver = self._deliver(node, made.downstream)
                hang(name, node.parents, deliver, self._deliver_batch(node, batches))
        for node in piece.nodes:
            self._processors[node.name].init(contexts[node.name])
        return TaskSources(piece, self.application_id, children, batches)

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

    def _deliver_batch(
        self, node: ProcessorNode, batches: Mapping[str, DeliverBatch | None]
    ) -> DeliverBatch | None:
        downstream = batches.get(node.name, to_nobody)
        if downstream is None or self._guarded:
            return None
        return self._processors[node.name].batch_step(downstream)

    def _unsent(self, node: str, record: AnyRecord, error: Exception) -> None:
        self._failed(FailureKind.PRODUCTION, node, record, error)

    def _extracted(self, row: InputRow) -> int:
        """The extracted timestamp of a row; `process` handles what can't be read."""
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
            # A registry that is down says nothing about the record: skipping it would lose data.
            fail(failure)
        self._outputs.extend(self._on_failure(failure))

    def _after_record(self) -> None:
        if self._commit_requested:
            self._commit_requested = False
            self._flush()
        self._punctuate(PunctuationType.STREAM_TIME, self.stream_time)
        self._reckon_stream_due()

    def _punctuate(self, kind: PunctuationType, now_ms: int) -> None:
        row, self._row = self._row, None
        while due := [
            schedule
            for schedule in self._schedules
            if schedule.kind is kind and not schedule.cancelled and schedule.next_ms <= now_ms
        ]:
            earliest = min(due, key=lambda schedule: schedule.next_ms)
            missed = (now_ms - earliest.next_ms) // earliest.interval_ms
            earliest.next_ms += (missed + 1) * earliest.interval_ms
            try:
                earliest.callback(now_ms)
            except StreamsError:
                raise
            except Exception as error:
                self._failed(FailureKind.PROCESSING, earliest.node, None, error)
        self._row = row

    def _reckon_stream_due(self) -> None:
        kind = PunctuationType.STREAM_TIME
        self._schedules = [schedule for schedule in self._schedules if not schedule.cancelled]
        due = [schedule.next_ms for schedule in self._schedules if schedule.kind is kind]
        self._stream_due = -1 if self._commit_requested else min(due, default=NEVER)

    def _flush(self) -> None:
        self._row = None
        for node, flush in self._flushes:
            try:
                flush()
            except StreamsError:
                raise
            except Exception as error:
                self._failed(FailureKind.PROCESSING, node, None, error)

    def _take(self) -> list[OutputRow]:
        taken = output_rows(self._outputs)
        self._outputs.clear()
        return taken

    def _restore(self) -> None:
        if self._task_cells is None:
            return
        stream_time = self._task_cells.get(b"stream-time")
        if stream_time is not None:
            (self.stream_time,) = LONG.unpack(stream_time)
        self.numbers.update(json.loads(self._task_cells.get(b"numbers") or b"{}"))
        for name in self.subtopology.stores:
            saved = self._task_cells.get(b"store:" + name.encode())
            if saved is not None:
                self.stores[name].restore(saved)

    def _store_cell(self, key: bytes, value: bytes) -> None:
        if self._task_cells is not None and self._stored.get(key) != value:
            self._task_cells.put(key, value)
            self._stored[key] = value


def _records(
    rows: Sequence[InputRow], columns: Mapping[str, RecordBatch | None]
) -> Iterable[AnyRecord | None]:
    """The deserialized records in the order of the rows."""
    if len(columns) == 1:
        (batch,) = columns.values()
        return repeat(None, len(rows)) if batch is None else batch.records()
    left = {
        topic: repeat(None) if batch is None else batch.records()
        for topic, batch in columns.items()
    }
    return (next(left[row[0]]) for row in rows)


class PrefixTask:
    """Runs a prefix: reads rows, gives them their new keys and notes where they came from.

    The results are input rows for `StreamTask.process` of the next sub-topology, in any order.
    """

    def __init__(self, task: StreamTask) -> None:
        self._task = task

    def process(self, rows: Iterable[InputRow]) -> list[InputRow]:
        given = rows if isinstance(rows, list | tuple) else list(rows)
        made, marks = self._task.process_marked(given)
        marks.append(len(made))
        found: list[InputRow] = []
        for number, row in enumerate(given):
            _, partition, offset, *_ = row
            origin = row.topic
            for turn, output in enumerate(made[marks[number] : marks[number + 1]]):
                topic, key, value, timestamp, headers, _ = output
                found.append(
                    InputRow(topic, partition, offset, timestamp, key, value, headers, turn, origin)
                )
        return found


def _punctuation_cell(node: str, place: int) -> bytes:
    return f"punctuation:{node}:{place}".encode()
