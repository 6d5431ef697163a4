"""A source task in its process: a thread polls it, and Spark's batches drain what it polled.

How a source is exactly once (KIP-618). A batch writes the polled records and their source offsets
in one transaction, and the driver then stores one decision, commit or abort, for the whole batch. A
task remembers what it has handed out, but it does not learn the decision: Spark may retry it, or
give the batch up, after the task has answered. So before the next batch it reads the decisions,
which name the batch and the attempts that wrote in it. If its own last attempt is there, all that
it has handed out is committed and the task continues. Otherwise some of it was lost: the task is
stopped, and a new one starts from the committed offsets, so that nothing is skipped or repeated.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.connect.api import SourceTask
from ottla.connect.data import SourceRecord
from ottla.connect.errors import RetriableException
from ottla.connect.run import source_offsets, transaction_boundary
from ottla.connect.run.row_packer import RowPacker, pack_rows
from ottla.connect.run.source_offsets import SourceOffsets
from ottla.connect.run.task_requests import (
    ConnectorJob,
    TaskBatchRequest,
    TaskReport,
    TaskWorkRequest,
)
from ottla.connect.run.topic_creation import TopicCreation
from ottla.connect.run.transaction_boundary import PolledBatch, WorkerTransactionContext
from ottla.connect.run.worker_task import TaskError, check_caller_waits, task_errors
from ottla.connect.transformation_chain import ProducedRow, TransformationChain
from ottla.engine.host_process import HostConnection
from ottla.spark.sink.commit_log import CommitLog, DeliveryError, SinkIdentity

log = logging.getLogger("ottla.connect")

WAITING_RECORDS_MAX: Final = 20_000
BATCH_RECORDS_MAX: Final = 200_000
BATCH_S_MAX: Final = 2.0
FIRST_S: Final = 1.0  # for a new task's first records: an empty batch costs as much
LINGER_S: Final = 0.05  # how long to wait for more records for a batch that has some
MANY_RECORDS: Final = 500
MANY_LINGER_S: Final = 0.5  # ... after a poll that returned many: there are usually more
NOTHING_S_FIRST: Final = 0.01  # the pause after the first empty poll; it doubles
NOTHING_S_MAX: Final = 0.5
STOP_S_MAX: Final = 5.0


class WorkerSourceTaskContext:
    """The SourceTaskContext."""

    def __init__(
        self,
        configs: Mapping[str, str],
        committed: SourceOffsets,
        transactions: WorkerTransactionContext | None,
    ) -> None:
        self.configs = configs
        self.transaction_context = transactions
        self._committed = committed

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._committed.get(partition)

    def offsets(
        self, partitions: Collection[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        return [(partition, self.offset(partition)) for partition in partitions]


class SourceTaskPoller:
    """A started task and the thread that polls it; polled records queue up here, up to a limit."""

    def __init__(self, task: SourceTask, request: TaskBatchRequest) -> None:
        job = request.job
        self.task = task
        with task_errors():
            self._chain = TransformationChain(
                job.config, connector=job.name, task=request.task, worker=job.worker.properties
            )
            self._creation = TopicCreation(job.config, job.worker)
        self._committed = source_offsets.load_source_offsets(
            job.name, job.config, job.worker, request.ranges
        )
        self._queue: deque[PolledBatch] = deque()
        self._count = 0
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._stopping = False
        self._idle = False
        """The last poll returned nothing."""
        self.is_new = True
        self._transactions = (
            WorkerTransactionContext() if transaction_boundary.defined_by_connector(job) else None
        )
        with task_errors():
            context = WorkerSourceTaskContext(request.props, self._committed, self._transactions)
            task.start(dict(request.props), context)
        self._thread = threading.Thread(target=self._poll, name=f"task {request.task}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float, *, unless_idle: bool = False) -> bool:
        """Wait for records or an error; with `unless_idle` only until a poll returns nothing."""

        def is_there() -> bool:
            return bool(self._queue) or self._error is not None

        with self._changed:
            self._changed.wait_for(lambda: is_there() or (unless_idle and self._idle), seconds)
            return is_there()

    def take(self) -> PolledBatch | None:
        """The next polled records, if any. After the last ones, raises the task's error."""
        with self._changed:
            if not self._queue and self._error is not None:
                raise self._error
            if not self._queue:
                return None
            polled = self._queue.popleft()
            self._count -= polled.count
            self._changed.notify_all()
            return polled

    @property
    def must_drain(self) -> bool:
        """The queue is full, or the task has failed."""
        return self._count >= WAITING_RECORDS_MAX or self._error is not None

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        try:
            self.task.stop()
        except Exception:
            log.exception("Stopping the task failed")
        self._thread.join(STOP_S_MAX)
        self._chain.close()

    def _poll(self) -> None:
        pause_s = NOTHING_S_FIRST
        try:
            while not self._stopping:
                records = self._records()
                if records:
                    for batch in self._completed(records):
                        self._put(batch)
                    pause_s = NOTHING_S_FIRST
                    continue
                with self._changed:
                    self._idle = True
                    self._changed.notify_all()
                    self._changed.wait_for(lambda: self._stopping, pause_s)
                pause_s = min(pause_s * 2, NOTHING_S_MAX)
        except Exception as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()

    def _records(self) -> Sequence[SourceRecord] | None:
        with task_errors():
            try:
                return self.task.poll()
            except RetriableException as error:
                log.warning("RetriableException from poll, will retry: %s", error)
                return None

    def _completed(self, records: Sequence[SourceRecord]) -> list[PolledBatch]:
        """What may be written now: the whole poll, or the transactions that it completed."""
        if self._transactions is None:
            return [self._convert(records)]
        polled = [self._convert([record]) for record in records]
        with task_errors():
            return list(self._transactions.completed(records, polled))

    def _convert(self, records: Sequence[SourceRecord]) -> PolledBatch:
        rows = []
        offsets: dict[str, Mapping[str, Any]] = {}
        last, partition = None, ""
        with task_errors():
            for record in records:
                row = self._chain.source(record)
                if row is not None:
                    rows.append(row)
                if record.source_partition is not last:  # usually the same object
                    last = record.source_partition
                    partition = source_offsets.canonical(last)
                offsets[partition] = record.source_offset
            for partition, offset in offsets.items():
                source_offsets.check_json(partition, offset)
        self._creation.ensure({row.topic for row in rows})
        return PolledBatch(list(records), rows, offsets, len(records))

    def _put(self, polled: PolledBatch) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._count < WAITING_RECORDS_MAX)
            self._queue.append(polled)
            self._count += polled.count
            self._idle = False
            self._changed.notify_all()


class WorkerSourceTask:
    def __init__(self, kind: type[SourceTask], request: TaskBatchRequest) -> None:
        self._kind = kind
        self._job = request.job
        self._poller: SourceTaskPoller | None = None
        self._batch = -1
        """The last batch that this task served."""
        self._attempt = 0
        self._wrote = False
        self._confirmed = -1
        """The last batch that the task knows to be committed."""
        self._uncommitted: list[SourceRecord] = []
        self._topics: set[str] = set()
        self._offsets: dict[str, Mapping[str, Any]] = {}
        self._cluster: ClusterClient | None = None
        self._interval_s = transaction_boundary.interval_s(request.job)
        self._ended_s = time.monotonic()

    def serve(self, request: TaskBatchRequest, connection: HostConnection) -> TaskReport:
        poller = self._ready(request)
        self._batch, self._attempt, self._wrote = request.batch, request.attempt, False
        count = 0
        offsets: dict[str, Mapping[str, Any]] = {}
        packer = RowPacker(connection.send)
        for polled in self._drain(poller, connection):
            count += polled.count
            offsets.update(polled.offsets)
            packer.add(polled.rows)
            self._topics.update(row.topic for row in polled.rows)
            if self._kind.commit_record is not SourceTask.commit_record:
                self._uncommitted.extend(polled.records)
        self._wrote = count > 0
        self._offsets |= offsets
        packer.finish()
        if offsets and not request.job.worker.standalone:
            connection.send(pack_rows(self._offset_rows(offsets)))
        file_offsets = self._offsets if request.job.worker.standalone else {}
        in_file = {
            partition: source_offsets.canonical(offset)
            for partition, offset in file_offsets.items()
        }
        return TaskReport(request.task, tuple(sorted(self._topics)), count, source=in_file)

    def has_work(self, request: TaskWorkRequest) -> bool:
        if self._poller is None or request.batch != self._batch + 1:
            return True
        self._confirm_committed()
        if self._interval_s is None or self._is_due(self._poller):
            return self._poller.wait(request.wait_s)
        time.sleep(min(request.wait_s, self._due_in_s()))
        return self._is_due(self._poller) and self._poller.wait(0.0)

    def stop(self) -> TaskReport | None:
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.stop()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        return None

    def _ready(self, request: TaskBatchRequest) -> SourceTaskPoller:
        """The running task if it may continue, or a new one."""
        if self._poller is not None and self._may_continue(request):
            self._confirm_committed()
            return self._poller
        if self._poller is not None:
            log.warning("Task %d restarts from the committed offsets", request.task)
        self.stop()
        self._uncommitted, self._wrote, self._offsets = [], False, {}
        if request.job.exactly_once:
            # An earlier attempt of this task may have left its transaction open. It must be aborted
            # before the offsets are read: reading waits for open transactions.
            self._check_not_fenced(request)
            decisions = self._decisions(request.job)
            decisions.abort_before(task=request.spark_partition, attempt=request.attempt)
        with task_errors():
            task = self._kind()
        self._poller = SourceTaskPoller(task, request)
        return self._poller

    def _may_continue(self, request: TaskBatchRequest) -> bool:
        """True if all that this task has handed out is committed."""
        if self._batch != request.batch - 1:
            return False  # a retry of the same batch, or a batch that another process has served
        if not request.job.exactly_once:
            return True
        state = self._check_not_fenced(request)
        last = request.job.first_batch + request.batch - 1
        writers = dict(state.writers) if state.batch == last else {}
        # Both directions count: written but not decided means lost records; decided for another
        # attempt means that another process wrote these records.
        return writers.get(request.spark_partition) == (self._attempt if self._wrote else None)

    def _check_not_fenced(self, request: TaskBatchRequest) -> Any:
        """The last decision. Raises DeliveryError if another run has fenced this one."""
        state = self._decisions(request.job).read()
        if state.run != request.job.run:
            raise DeliveryError(
                f"connector {request.job.name} runs elsewhere: another run of it has taken over"
            )
        return state

    def _decisions(self, job: ConnectorJob) -> CommitLog:
        if self._cluster is None:
            self._cluster = cluster_client_of(job)
        timeout_ms = transaction_boundary.timeout_ms(job)
        return CommitLog(self._cluster, SinkIdentity(job.query), timeout_ms=timeout_ms)

    def _drain(self, poller: SourceTaskPoller, connection: HostConnection) -> Iterator[PolledBatch]:
        """Whole polls, until there are no more records, or enough for one batch."""
        if not self._is_due(poller):
            return
        open_s = min(self._due_in_s(), transaction_boundary.OPEN_S_MAX)
        deadline = time.monotonic() + max(open_s, BATCH_S_MAX)
        records_max = BATCH_RECORDS_MAX if self._interval_s is None else None
        count = 0
        poller.wait(self._first_wait_s(poller), unless_idle=self._job.local)
        many = False
        while (records_max is None or count < records_max) and time.monotonic() < deadline:
            polled = poller.take() if count == 0 else self._more(poller, many)
            if polled is None and (count == 0 or self._due_in_s() == 0.0):
                break
            if polled is not None:
                count += polled.count
                many = polled.count >= MANY_RECORDS
                yield polled
            check_caller_waits(connection)
        if count:
            self._ended_s = time.monotonic()

    def _is_due(self, poller: SourceTaskPoller) -> bool:
        """With `transaction.boundary=interval` a batch waits for the end of the interval, unless
        the queue is full: then the transaction begins earlier and stays open."""
        return self._due_in_s() == 0.0 or poller.must_drain

    def _due_in_s(self) -> float:
        if self._interval_s is None:
            return 0.0
        return max(self._ended_s + self._interval_s - time.monotonic(), 0.0)

    def _first_wait_s(self, poller: SourceTaskPoller) -> float:
        if poller.is_new:
            poller.is_new = False
            return FIRST_S
        return 0.0 if self._job.local else self._job.idle_s

    def _more(self, poller: SourceTaskPoller, many: bool) -> PolledBatch | None:
        """More records for this batch. An error is left for the next batch, so that the records
        before it are written."""
        at_once = self._due_in_s() == 0.0  # empty polls do not shorten an interval
        if not poller.wait(MANY_LINGER_S if many else LINGER_S, unless_idle=at_once):
            return None
        try:
            return poller.take()
        except TaskError:
            return None

    def _confirm_committed(self) -> None:
        """All that was handed out is committed: call `commit_record` and `commit`, once."""
        if not self._wrote or self._confirmed == self._batch or self._poller is None:
            return
        self._confirmed = self._batch
        task, uncommitted = self._poller.task, self._uncommitted
        self._uncommitted = []
        try:
            for record in uncommitted:
                task.commit_record(record)
            task.commit()
        except Exception:
            # The records are committed, so this must not fail the task; Kafka only logs it, too.
            log.exception("Exception thrown while calling task.commit()")

    def _offset_rows(self, offsets: Mapping[str, Mapping[str, Any]]) -> list[ProducedRow]:
        topic = source_offsets.topic_of(self._job.config, self._job.worker)
        return [
            ProducedRow(
                topic,
                None,
                source_offsets.key_of(self._job.name, json.loads(partition)),
                source_offsets.value_of(offset),
                None,
            )
            for partition, offset in offsets.items()
        ]


def cluster_client_of(job: ConnectorJob) -> ClusterClient:
    return ClusterClient(job.worker.bootstrap_servers, job.worker.client())
