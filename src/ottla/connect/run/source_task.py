"""A source task where it lives: polled on a thread of its own, drained by Spark's batches.

What it polls is not written until a batch takes it, and not committed until that batch is decided.
So a task may go on only if all that it gave out was decided: else it is stopped, and a new one
starts from the offsets that are committed. Whether it was is read from the sink's decisions, which
name the batch and the tasks that wrote in it.
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
from ottla.connect.run import boundaries, source_offsets
from ottla.connect.run.boundaries import Polled, Transactions
from ottla.connect.run.creation import Creation
from ottla.connect.run.live import TaskError, blamed, check_that_somebody_waits
from ottla.connect.run.orders import Ask, Job, Order, Report
from ottla.connect.run.rows import Packing, packed
from ottla.connect.run.source_offsets import SourceOffsets
from ottla.connect.tolerance import Chain, ProducedRow
from ottla.engine.hosts import Line
from ottla.spark.sink.decisions import Decisions, DeliveryError, Identity

log = logging.getLogger("ottla.connect")

WAITING_RECORDS_MAX: Final = 20_000
BATCH_RECORDS_MAX: Final = 200_000
BATCH_S_MAX: Final = 2.0
FIRST_S: Final = 1.0  # that a task may take for its first records: a batch of nothing costs as much
LINGER_S: Final = 0.05  # a busy poll may bring more for the same batch
MANY_RECORDS: Final = 500
MANY_LINGER_S: Final = 0.5  # behind so many there are mostly more
NOTHING_S_FIRST: Final = 0.01  # after a poll that brought nothing, at once
NOTHING_S_MAX: Final = 0.5
STOP_S_MAX: Final = 5.0


class Context:
    """What the task is given."""

    def __init__(
        self,
        configs: Mapping[str, str],
        committed: SourceOffsets,
        transactions: Transactions | None,
    ) -> None:
        self.configs = configs
        self.transaction_context = transactions
        self._committed = committed

    def offset(self, partition: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return self._committed.get(partition)

    def offsets(
        self, partitions: Collection[Mapping[str, Any]]
    ) -> list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]:
        return [(each, self.offset(each)) for each in partitions]


class Poller:
    """A started task and the thread that polls it; what it brought waits here, up to a limit."""

    def __init__(self, task: SourceTask, order: Order) -> None:
        job = order.job
        self.task = task
        with blamed():
            self._chain = Chain(
                job.config, connector=job.name, task=order.task, worker=job.worker.properties
            )
            self._creation = Creation(job.config, job.worker)
        self._committed = source_offsets.load(job.name, job.config, job.worker, order.ranges)
        self._waiting: deque[Polled] = deque()
        self._count = 0
        self._changed = threading.Condition()
        self._error: Exception | None = None
        self._stopping = False
        self._idle = False
        """The last poll brought nothing."""
        self.is_new = True
        self._transactions = Transactions() if boundaries.defined_by_connector(job) else None
        with blamed():
            context = Context(order.props, self._committed, self._transactions)
            task.start(dict(order.props), context)
        self._thread = threading.Thread(target=self._poll, name=f"task {order.task}", daemon=True)
        self._thread.start()

    def wait(self, seconds: float, *, unless_idle: bool = False) -> bool:
        """Whether there is something, or an error, within so long; or until a poll is in vain."""

        def is_there() -> bool:
            return bool(self._waiting) or self._error is not None

        with self._changed:
            self._changed.wait_for(lambda: is_there() or (unless_idle and self._idle), seconds)
            return is_there()

    def take(self) -> Polled | None:
        """The next one; a batch that has some already waits for a busy poll only."""
        with self._changed:
            if not self._waiting and self._error is not None:
                raise self._error
            if not self._waiting:
                return None
            polled = self._waiting.popleft()
            self._count -= polled.count
            self._changed.notify_all()
            return polled

    @property
    def pressed(self) -> bool:
        """No more can wait, or there is an error to be told of."""
        return self._count >= WAITING_RECORDS_MAX or self._error is not None

    def stop(self) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        try:
            self.task.stop()
        except Exception:
            log.exception("a task did not stop in order")
        self._thread.join(STOP_S_MAX)
        self._chain.close()

    def _poll(self) -> None:
        pause_s = NOTHING_S_FIRST
        try:
            while not self._stopping:
                records = self._records()
                if records:
                    for each in self._whole(records):
                        self._put(each)
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
        with blamed():
            try:
                return self.task.poll()
            except RetriableException as error:
                log.warning("a poll failed and is tried again: %s", error)
                return None

    def _whole(self, records: Sequence[SourceRecord]) -> list[Polled]:
        """What may be written now: a poll, or the transactions that it ended."""
        if self._transactions is None:
            return [self._polled(records)]
        polled = [self._polled([each]) for each in records]
        with blamed():
            return list(self._transactions.ended(records, polled))

    def _polled(self, records: Sequence[SourceRecord]) -> Polled:
        rows = []
        offsets: dict[str, Mapping[str, Any]] = {}
        last, partition = None, ""
        with blamed():
            for record in records:
                row = self._chain.source(record)
                if row is not None:
                    rows.append(row)
                if record.source_partition is not last:  # most are of the same one
                    last = record.source_partition
                    partition = source_offsets.canonical(last)
                offsets[partition] = record.source_offset
            for partition, offset in offsets.items():
                source_offsets.check_json(partition, offset)
        self._creation.see({each.topic for each in rows})
        return Polled(list(records), rows, offsets, len(records))

    def _put(self, polled: Polled) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self._count < WAITING_RECORDS_MAX)
            self._waiting.append(polled)
            self._count += polled.count
            self._idle = False
            self._changed.notify_all()


class LiveSource:
    def __init__(self, kind: type[SourceTask], order: Order) -> None:
        self._kind = kind
        self._job = order.job
        self._poller: Poller | None = None
        self._batch = -1
        """The last one that it served, and how that ended."""
        self._attempt = 0
        self._wrote = False
        self._confirmed = -1
        self._given: list[SourceRecord] = []
        self._topics: set[str] = set()
        self._offsets: dict[str, Mapping[str, Any]] = {}
        self._cluster: ClusterClient | None = None
        self._interval_s = boundaries.interval_s(order.job)
        self._ended_s = time.monotonic()

    def serve(self, order: Order, line: Line) -> Report:
        poller = self._ready(order)
        self._batch, self._attempt, self._wrote = order.batch, order.attempt, False
        count = 0
        offsets: dict[str, Mapping[str, Any]] = {}
        packing = Packing(line.send)
        for polled in self._drained(poller, line):
            count += polled.count
            offsets.update(polled.offsets)
            packing.add(polled.rows)
            self._topics.update(each.topic for each in polled.rows)
            if self._kind.commit_record is not SourceTask.commit_record:
                self._given.extend(polled.records)
        self._wrote = count > 0
        self._offsets |= offsets
        packing.finish()
        if offsets and not order.job.worker.standalone:
            line.send(packed(self._offset_rows(offsets)))
        kept = self._offsets if order.job.worker.standalone else {}
        in_file = {each: source_offsets.canonical(offset) for each, offset in kept.items()}
        return Report(order.task, tuple(sorted(self._topics)), count, source=in_file)

    def has_news(self, ask: Ask) -> bool:
        if self._poller is None or ask.batch != self._batch + 1:
            return True
        self._confirm()
        if self._interval_s is None or self._is_due(self._poller):
            return self._poller.wait(ask.wait_s)
        time.sleep(min(ask.wait_s, self._due_in_s()))
        return self._is_due(self._poller) and self._poller.wait(0.0)

    def stop(self) -> Report | None:
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.stop()
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None
        return None

    def _ready(self, order: Order) -> Poller:
        """The task that goes on, or a new one."""
        if self._poller is not None and self._goes_on(order):
            self._confirm()
            return self._poller
        if self._poller is not None:
            log.warning("task %d starts again from what is committed", order.task)
        self.stop()
        self._given, self._wrote, self._offsets = [], False, {}
        if order.job.exactly_once:
            self._check_run(order)
            decisions = self._decisions(order.job)
            decisions.abort_before(task=order.place, attempt=order.attempt)
        with blamed():
            task = self._kind()
        self._poller = Poller(task, order)
        return self._poller

    def _goes_on(self, order: Order) -> bool:
        if self._batch != order.batch - 1:
            return False
        if not order.job.exactly_once:
            return True
        state = self._check_run(order)
        last = order.job.first_batch + order.batch - 1
        writers = dict(state.writers) if state.batch == last else {}
        return writers.get(order.place) == (self._attempt if self._wrote else None)

    def _check_run(self, order: Order) -> Any:
        state = self._decisions(order.job).read()
        if state.run != order.job.run:
            raise DeliveryError(
                f"connector {order.job.name} runs elsewhere: another run of it has taken over"
            )
        return state

    def _decisions(self, job: Job) -> Decisions:
        if self._cluster is None:
            self._cluster = connection(job)
        timeout_ms = boundaries.timeout_ms(job)
        return Decisions(self._cluster, Identity(job.query), timeout_ms=timeout_ms)

    def _drained(self, poller: Poller, line: Line) -> Iterator[Polled]:
        """Whole polls, until there are no more, or enough."""
        if not self._is_due(poller):
            return
        open_s = min(self._due_in_s(), boundaries.OPEN_S_MAX)
        deadline = time.monotonic() + max(open_s, BATCH_S_MAX)
        most = BATCH_RECORDS_MAX if self._interval_s is None else None
        count = 0
        poller.wait(self._patience_s(poller), unless_idle=self._job.local)
        many = False
        while (most is None or count < most) and time.monotonic() < deadline:
            polled = poller.take() if count == 0 else self._more(poller, many)
            if polled is None and (count == 0 or self._due_in_s() == 0.0):
                break
            if polled is not None:
                count += polled.count
                many = polled.count >= MANY_RECORDS
                yield polled
            check_that_somebody_waits(line)
        if count:
            self._ended_s = time.monotonic()

    def _is_due(self, poller: Poller) -> bool:
        """Where transactions end by time it is too early until then, unless no more can wait: then
        it is begun, and written as it comes."""
        return self._due_in_s() == 0.0 or poller.pressed

    def _due_in_s(self) -> float:
        if self._interval_s is None:
            return 0.0
        return max(self._ended_s + self._interval_s - time.monotonic(), 0.0)

    def _patience_s(self, poller: Poller) -> float:
        if poller.is_new:
            poller.is_new = False
            return FIRST_S
        return 0.0 if self._job.local else self._job.idle_s

    def _more(self, poller: Poller, many: bool) -> Polled | None:
        """An error waits for its own batch: what came before it is written."""
        at_once = self._due_in_s() == 0.0  # an interval is waited for, polls in vain or not
        if not poller.wait(MANY_LINGER_S if many else LINGER_S, unless_idle=at_once):
            return None
        try:
            return poller.take()
        except TaskError:
            return None

    def _confirm(self) -> None:
        """All that was given out is committed; the task hears of it once."""
        if not self._wrote or self._confirmed == self._batch or self._poller is None:
            return
        self._confirmed = self._batch
        task, given = self._poller.task, self._given
        self._given = []
        try:
            for record in given:
                task.commit_record(record)
            task.commit()
        except Exception:
            # It is committed, whatever the task makes of that; so it is in Kafka.
            log.exception("a task failed when it was told of a commit")

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


def connection(job: Job) -> ClusterClient:
    return ClusterClient(job.worker.bootstrap_servers, job.worker.client())
