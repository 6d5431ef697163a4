"""A sink task in its process: it reads its partitions itself, from its position to the batch's end.

Positions are the task's own, as in a consumer. They start at the offsets that the connector's group
has committed: a task may buffer records and leave them out of `pre_commit`, and these have to be
delivered again to the task that follows it. Spark's start offsets are already past such records, so
they are not used; Spark's end offsets limit how far a batch goes.

What is committed: after the last `put` of a batch `pre_commit` gets the positions and returns the
offsets that are safe. They go to the driver in the report, and the driver commits them as the
group's member (sink_group_member.py), so a zombie's report cannot move the group.

Spark writes the dead letters of a batch, and the report counts once it has. A task that ends after
a batch that may not be committed reports no offsets if there were dead letters in it: where Kafka's
worker waits for its producer, the records are delivered again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ottla.client import Admin
from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.client.record import TopicPartition
from ottla.connect.api import ErrantRecordReporter, SinkTask
from ottla.connect.data import SinkRecord
from ottla.connect.errors import RetriableException
from ottla.connect.run.read_options import sink_read_options
from ottla.connect.run.row_packer import pack_rows
from ottla.connect.run.task_requests import TaskBatchRequest, TaskReport, TaskWorkRequest
from ottla.connect.run.worker_task import check_caller_waits, task_errors
from ottla.connect.transformation_chain import ConsumedRow, ProducedRow, TransformationChain
from ottla.engine.host_process import HostConnection
from ottla.spark.chunks import Chunk, read_chunks
from ottla.spark.offsets import Offsets
from ottla.spark.options import ReadOptions

log = logging.getLogger("ottla.connect")

PUT_RECORDS_MAX: Final = 500
RETRY_MS: Final = 100  # retry.backoff.ms
SLICE_S: Final = 0.1
IDLE_S: Final = 1.0
"""How often `put([])` is called without records: some tasks close files by time."""


class WorkerSinkTaskContext:
    """The SinkTaskContext; `reporter` takes the records that the task cannot write."""

    def __init__(self, configs: Mapping[str, str], reporter: ErrantRecordReporter | None) -> None:
        self.configs = configs
        self.errant_record_reporter = reporter
        self.assignment: set[TopicPartition] = set()
        self.rewinds: dict[TopicPartition, int] = {}
        self.timeout_ms: int | None = None
        self.paused: set[TopicPartition] = set()

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.rewinds.update(offsets)

    def timeout(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms

    def request_commit(self) -> None:
        """Nothing to do: every batch ends with a commit."""

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(partitions)


class WorkerSinkTask:
    def __init__(self, kind: type[SinkTask], request: TaskBatchRequest) -> None:
        self._kind = kind
        self._job = request.job
        self._options: ReadOptions = sink_read_options(request.job)
        self._dead_letters: list[ProducedRow] = []
        self._sent_dead_letters = False
        """To a batch that may not be committed yet."""
        self._state: _SinkTaskState | None = None
        self._batch = -1
        self._task_id = request.task

    def serve(self, request: TaskBatchRequest, connection: HostConnection) -> TaskReport:
        if self._state is not None and self._batch != request.batch - 1:
            # A batch in between was lost, or this one is a retry: what the task has in memory may
            # be behind or ahead of the plan. The committed offsets are the common ground.
            log.warning("Task %d restarts from the committed offsets", request.task)
            self.stop()
        if self._state is None:
            self._state = self._start(request)
        self._batch = request.batch
        self._sent_dead_letters = False  # the batch before is committed
        state = self._state
        state.assign(request.ranges, self._committed)
        wanted = state.ranges(request.ranges)
        count = 0
        for rows in self._rows(wanted):
            check_caller_waits(connection)
            state.put(rows, connection)
            count += len(rows)
            self._send_dead_letters(connection)
        state.advance(wanted)
        if not count:
            state.put([], connection)
        consumed = state.commit()
        self._send_dead_letters(connection)
        topics = tuple(
            sorted({range_.topic for range_ in request.ranges if range_.start > 0 or range_.size})
        )
        return TaskReport(request.task, topics, count, consumed)

    def has_work(self, request: TaskWorkRequest) -> bool:
        """Without records to read, a task may still have files to close or offsets to commit."""
        if request.batch > self._batch:
            self._sent_dead_letters = False
        if self._state is None:
            return False
        return self._state.poll_idle() or bool(self._dead_letters)

    def stop(self) -> TaskReport | None:
        state, self._state = self._state, None
        if state is None:
            return None
        consumed = state.stop()
        if self._sent_dead_letters or self._dead_letters:
            log.warning(
                "Task %d ends without a commit, because its dead letters may not be written; the"
                " records since the last commit will be delivered again",
                self._task_id,
            )
            return None
        return TaskReport(self._task_id, consumed=consumed)

    def _start(self, request: TaskBatchRequest) -> _SinkTaskState:
        self._dead_letters.clear()
        with task_errors():
            chain = TransformationChain(
                request.job.config,
                connector=request.job.name,
                task=request.task,
                worker=request.job.worker.properties,
                on_dead_letter=self._dead_letters.append,
            )
            context = WorkerSinkTaskContext(request.props, chain if chain.reports else None)
            task = self._kind()
            task.start(dict(request.props), context)
        return _SinkTaskState(task, chain, context)

    def _committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        job = self._job
        with Admin(job.worker.bootstrap_servers, settings=job.worker.admin(job.config)) as admin:
            found = admin.groups.offsets(job.group)
        return {
            partition: found[partition].offset for partition in partitions if partition in found
        }

    def _rows(self, ranges: Sequence[OffsetRange]) -> Iterator[list[ConsumedRow]]:
        for chunk in read_chunks(self._options, ranges):
            rows = consumed_rows_of(chunk)
            while batch_rows := list(islice(rows, PUT_RECORDS_MAX)):
                yield batch_rows

    def _send_dead_letters(self, connection: HostConnection) -> None:
        if self._dead_letters:
            self._sent_dead_letters = True
            connection.send(pack_rows(self._dead_letters))
            self._dead_letters.clear()


class _SinkTaskState:
    """A started task with its assignment, and its position in each partition."""

    def __init__(
        self, task: SinkTask, chain: TransformationChain, context: WorkerSinkTaskContext
    ) -> None:
        self._task = task
        self._chain = chain
        self._context = context
        self._positions: Offsets = {}
        self._ends: Offsets = {}
        self._reported: Offsets = {}
        self._last_put_s = time.monotonic()
        self._rewound: set[TopicPartition] = set()

    def assign(self, ranges: Sequence[OffsetRange], committed: Any) -> None:
        """Revokes and assigns partitions, as in a rebalance."""
        wanted = {TopicPartition(range_.topic, range_.partition): range_.start for range_ in ranges}
        gone = self._positions.keys() - wanted.keys()
        new = wanted.keys() - self._positions.keys()
        if gone:
            self.commit()  # `flush` while the partitions are still the task's
            with task_errors():
                self._task.close(sorted(gone))
            self._positions = {
                partition: at for partition, at in self._positions.items() if partition in wanted
            }
        if not new and not gone:
            return
        self._context.assignment = set(wanted)
        if new:
            self._positions |= {partition: wanted[partition] for partition in new} | committed(new)
            with task_errors():
                self._task.open(sorted(new))
        self._rewind()
        self._rewound.clear()

    def ranges(self, ranges: Sequence[OffsetRange]) -> list[OffsetRange]:
        """The ranges to read: from the task's position, whatever Spark's batch starts with."""
        found = []
        for range_ in ranges:
            partition = TopicPartition(range_.topic, range_.partition)
            self._ends[partition] = range_.end
            if self._positions[partition] < range_.end and partition not in self._context.paused:
                found.append(range_._replace(start=self._positions[partition]))
        return found

    def advance(self, ranges: Sequence[OffsetRange]) -> None:
        """Moves positions to the end of the batch: behind the last record there may be a
        transaction marker or a gap, and without this step the group would never reach the log end.
        A position that the task has rewound stays."""
        for range_ in ranges:
            partition = TopicPartition(range_.topic, range_.partition)
            if partition not in self._rewound:
                self._positions[partition] = max(self._positions[partition], range_.end)
        self._rewound.clear()

    def put(self, rows: Sequence[ConsumedRow], connection: HostConnection) -> None:
        with task_errors():
            records = self._chain.sinks(rows)
            while not self._put_once(records):
                self._wait_before_retry(connection)
        for row in rows[-1:]:
            self._positions[TopicPartition(row.topic, row.partition)] = row.offset + 1
        self._last_put_s = time.monotonic()
        self._rewind()

    def commit(self) -> Offsets:
        """Asks the task which offsets are safe.

        As Connect does, drops offsets of partitions that the task does not have, and offsets past
        what it was given: committing these would skip records.
        """
        positions = dict(self._positions)
        with task_errors():
            safe = self._task.pre_commit(positions) or {}
        self._reported = {
            partition: at
            for partition, at in safe.items()
            if partition in positions and at <= positions[partition]
        }
        return self._reported

    def poll_idle(self) -> bool:
        if time.monotonic() - self._last_put_s < IDLE_S:
            return False
        self._last_put_s = time.monotonic()
        before = self._reported
        try:
            with task_errors():
                self._task.put([])
            return self.commit() != before or self._is_behind()
        except Exception:
            log.warning("Task failed between two batches", exc_info=True)
            return True  # the next batch will fail in the same way, and report it

    def stop(self) -> Offsets:
        """Returns the offsets that may still be committed."""
        safe: Offsets = {}
        try:
            if self._positions:
                safe = self.commit()
                self._task.close(sorted(self._positions))
            self._task.stop()
        except Exception:
            log.exception("Stopping the task failed")
        finally:
            self._chain.close()
        return safe

    def _is_behind(self) -> bool:
        """True if a partition was rewound, or resumed after a pause, and has records to read."""
        return any(
            self._positions[partition] < end
            for partition, end in self._ends.items()
            if partition in self._positions and partition not in self._context.paused
        )

    def _put_once(self, records: Sequence[SinkRecord]) -> bool:
        try:
            self._task.put(records)
        except RetriableException as error:
            log.warning("RetriableException from put, will retry: %s", error)
            return False
        return True

    def _wait_before_retry(self, connection: HostConnection) -> None:
        timeout_ms, self._context.timeout_ms = self._context.timeout_ms, None
        deadline = time.monotonic() + (RETRY_MS if timeout_ms is None else timeout_ms) / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, SLICE_S))
            check_caller_waits(connection)

    def _rewind(self) -> None:
        rewinds, self._context.rewinds = self._context.rewinds, {}
        self._positions |= {
            partition: at for partition, at in rewinds.items() if partition in self._positions
        }
        self._rewound.update(rewinds)


def consumed_rows_of(chunk: Chunk) -> Iterator[ConsumedRow]:
    columns = chunk.columns
    count = len(chunk)
    headers = columns.headers.to_pylist() if columns.headers is not None else [None] * count
    for offset, timestamp, key, value, batch_rows in zip(
        columns.offsets.to_pylist(),
        columns.timestamps_ms.to_pylist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        headers,
        strict=True,
    ):
        pairs = (
            tuple((header["key"], header["value"]) for header in batch_rows) if batch_rows else ()
        )
        yield ConsumedRow(
            chunk.topic,
            chunk.partition,
            offset,
            timestamp,
            chunk.timestamp_type,
            key,
            value,
            pairs,
        )
