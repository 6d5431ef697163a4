"""A sink task where it lives: it reads its partitions itself, from where it is to where it may.

Its place is its own, or, when it begins, that of the connector's group: a task that buffers (and
says so in `pre_commit`) is given again what a task before it had buffered. Spark's offsets say
how far a batch goes, and nothing else.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from ottla.client import Admin
from ottla.client.protocol.fetching import Range
from ottla.client.record import TopicPartition
from ottla.connect.api import ErrantRecordReporter, SinkTask
from ottla.connect.data import SinkRecord
from ottla.connect.errors import RetriableException
from ottla.connect.run.live import blamed, check_that_somebody_waits
from ottla.connect.run.orders import Ask, Order, Report
from ottla.connect.run.reading import sink_options
from ottla.connect.run.rows import packed
from ottla.connect.tolerance import Chain, ConsumedRow, ProducedRow
from ottla.engine.hosts import Line
from ottla.spark.offsets import Offsets
from ottla.spark.options import ReadOptions
from ottla.spark.reading import Chunk, read

log = logging.getLogger("ottla.connect")

PUT_RECORDS_MAX: Final = 500
RETRY_MS: Final = 100  # retry.backoff.ms
SLICE_S: Final = 0.1
IDLE_S: Final = 1.0
"""So often a task without records is called, as some close files by time."""


class Context:
    """What the task is given; `reporter` tells of records that it can't write."""

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
        """Each batch is committed at its end."""

    def pause(self, *partitions: TopicPartition) -> None:
        self.paused.update(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        self.paused.difference_update(partitions)


class LiveSink:
    def __init__(self, kind: type[SinkTask], order: Order) -> None:
        self._kind = kind
        self._job = order.job
        self._options: ReadOptions = sink_options(order.job)
        self._letters: list[ProducedRow] = []
        self._started: _Started | None = None
        self._batch = -1
        self._number = order.task

    def serve(self, order: Order, line: Line) -> Report:
        if self._started is not None and self._batch != order.batch - 1:
            log.warning("task %d starts again from what is committed", order.task)
            self.stop()
        if self._started is None:
            self._started = self._start(order)
        self._batch = order.batch
        started = self._started
        started.assign(order.ranges, self._committed)
        wanted = started.ranges(order.ranges)
        count = 0
        for rows in self._rows(wanted):
            check_that_somebody_waits(line)
            started.put(rows, line)
            count += len(rows)
            self._send_letters(line)
        started.reached(wanted)
        if not count:
            started.put([], line)
        consumed = started.commit()
        self._send_letters(line)
        topics = tuple(sorted({each.topic for each in order.ranges if each.start > 0 or each.size}))
        return Report(order.task, topics, count, consumed)

    def has_news(self, ask: Ask) -> bool:
        """Nothing to read: but a task may have something to finish."""
        if self._started is None:
            return False
        return self._started.look()

    def stop(self) -> Report | None:
        started, self._started = self._started, None
        return None if started is None else Report(self._number, consumed=started.stop())

    def _start(self, order: Order) -> _Started:
        self._letters.clear()
        with blamed():
            chain = Chain(
                order.job.config,
                connector=order.job.name,
                task=order.task,
                worker=order.job.worker.properties,
                on_dead_letter=self._letters.append,
            )
            context = Context(order.props, chain if chain.reports else None)
            task = self._kind()
            task.start(dict(order.props), context)
        return _Started(task, chain, context)

    def _committed(self, partitions: Collection[TopicPartition]) -> Offsets:
        job = self._job
        with Admin(job.worker.bootstrap_servers, settings=job.worker.admin(job.config)) as admin:
            found = admin.groups.offsets(job.group)
        return {each: found[each].offset for each in partitions if each in found}

    def _rows(self, ranges: Sequence[Range]) -> Iterator[list[ConsumedRow]]:
        for chunk in read(self._options, ranges):
            rows = consumed_rows(chunk)
            while some := list(islice(rows, PUT_RECORDS_MAX)):
                yield some

    def _send_letters(self, line: Line) -> None:
        if self._letters:
            line.send(packed(self._letters))
            self._letters.clear()


class _Started:
    """A task that has begun, with the partitions that it has and its place in each."""

    def __init__(self, task: SinkTask, chain: Chain, context: Context) -> None:
        self._task = task
        self._chain = chain
        self._context = context
        self._places: Offsets = {}
        self._ends: Offsets = {}
        self._reported: Offsets = {}
        self._looked_s = time.monotonic()
        self._moved: set[TopicPartition] = set()

    def assign(self, ranges: Sequence[Range], committed: Any) -> None:
        """Partitions that come and go, as in a rebalance of a group."""
        wanted = {TopicPartition(each.topic, each.partition): each.start for each in ranges}
        gone = self._places.keys() - wanted.keys()
        new = wanted.keys() - self._places.keys()
        if gone:
            self.commit()
            with blamed():
                self._task.close(sorted(gone))
            self._places = {each: at for each, at in self._places.items() if each in wanted}
        if not new and not gone:
            return
        self._context.assignment = set(wanted)
        if new:
            self._places |= {each: wanted[each] for each in new} | committed(new)
            with blamed():
                self._task.open(sorted(new))
        self._rewind()
        self._moved.clear()

    def ranges(self, ranges: Sequence[Range]) -> list[Range]:
        """What to read now: from the task's own place, whatever Spark's batch begins with."""
        found = []
        for each in ranges:
            where = TopicPartition(each.topic, each.partition)
            self._ends[where] = each.end
            if self._places[where] < each.end and where not in self._context.paused:
                found.append(each._replace(start=self._places[where]))
        return found

    def reached(self, ranges: Sequence[Range]) -> None:
        """What lies behind the last record, a marker or a gap, is read as well. A place that the
        task has moved stays where it is."""
        for each in ranges:
            where = TopicPartition(each.topic, each.partition)
            if where not in self._moved:
                self._places[where] = max(self._places[where], each.end)
        self._moved.clear()

    def put(self, rows: Sequence[ConsumedRow], line: Line) -> None:
        with blamed():
            records = self._chain.sinks(rows)
            while not self._try(records):
                self._wait(line)
        for row in rows[-1:]:
            self._places[TopicPartition(row.topic, row.partition)] = row.offset + 1
        self._looked_s = time.monotonic()
        self._rewind()

    def commit(self) -> Offsets:
        """What of all that was put may be committed."""
        places = dict(self._places)
        with blamed():
            safe = self._task.pre_commit(places) or {}
        self._reported = {
            each: at for each, at in safe.items() if each in places and at <= places[each]
        }
        return self._reported

    def look(self) -> bool:
        if time.monotonic() - self._looked_s < IDLE_S:
            return False
        self._looked_s = time.monotonic()
        before = self._reported
        try:
            with blamed():
                self._task.put([])
            return self.commit() != before or self._is_behind()
        except Exception:
            log.warning("a task failed between two batches", exc_info=True)
            return True  # the next batch fails in the same way, and tells

    def stop(self) -> Offsets:
        """What may still be committed."""
        safe: Offsets = {}
        try:
            if self._places:
                safe = self.commit()
                self._task.close(sorted(self._places))
            self._task.stop()
        except Exception:
            log.exception("a task did not stop in order")
        finally:
            self._chain.close()
        return safe

    def _is_behind(self) -> bool:
        """Of partitions that it reads: it has gone back, or was not to read them for a while."""
        return any(
            self._places[each] < end
            for each, end in self._ends.items()
            if each in self._places and each not in self._context.paused
        )

    def _try(self, records: Sequence[SinkRecord]) -> bool:
        try:
            self._task.put(records)
        except RetriableException as error:
            log.warning("put failed and is tried again: %s", error)
            return False
        return True

    def _wait(self, line: Line) -> None:
        wished, self._context.timeout_ms = self._context.timeout_ms, None
        deadline = time.monotonic() + (RETRY_MS if wished is None else wished) / 1000
        while (left_s := deadline - time.monotonic()) > 0:
            time.sleep(min(left_s, SLICE_S))
            check_that_somebody_waits(line)

    def _rewind(self) -> None:
        rewinds, self._context.rewinds = self._context.rewinds, {}
        self._places |= {each: at for each, at in rewinds.items() if each in self._places}
        self._moved.update(rewinds)


def consumed_rows(chunk: Chunk) -> Iterator[ConsumedRow]:
    columns = chunk.columns
    count = len(chunk)
    headers = columns.headers.to_pylist() if columns.headers is not None else [None] * count
    for offset, timestamp, key, value, some in zip(
        columns.offsets.to_pylist(),
        columns.timestamps_ms.to_pylist(),
        columns.keys.to_pylist(),
        columns.values.to_pylist(),
        headers,
        strict=True,
    ):
        pairs = tuple((each["key"], each["value"]) for each in some) if some else ()
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
