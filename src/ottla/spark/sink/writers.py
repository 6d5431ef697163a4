"""Spark's DataSource writers of the sink: `write` runs in tasks, `commit` in the driver."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ottla.client.delivery import Delivery
from ottla.spark.sink.commit_log import SinkIdentity
from ottla.spark.sink.options import SinkError, WriteOptions, write_options
from ottla.spark.sink.task_attempt import (
    TaskAttempt,
    WriteResult,
    commit_log_of,
    write_at_least_once,
    write_exactly_once,
)
from ottla.spark.sink.topic_records import check_columns

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# The local properties of tasks of a streaming query, and of the writes in its foreachBatch.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"
CONTINUOUS: Final = "__is_continuous_processing"

Messages = Sequence[WriterCommitMessage | None]


@dataclass
class SinkCommitMessage(WriterCommitMessage):
    """How much a task wrote; `result` if it wrote exactly once."""

    rows: int
    result: WriteResult | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> SinkCommitMessage:
        return _write(self._options, _attempt(self._options, name=self._options.name), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        _commit(self._options, messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        _abort(self._options, messages)


class BatchWriter(DataSourceArrowWriter):
    """A batch write: standalone, or in a streaming query's foreachBatch.

    A standalone write with exactly_once is a query of one batch.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job = str(uuid.uuid4())

    def write(self, iterator: Iterator[Any]) -> SinkCommitMessage:
        options = self._options
        # Two writes of one foreachBatch usually differ in their topics, which distinguishes them.
        attempt = _attempt(options, name=options.name or options.topic)
        if attempt is None and options.delivery is Delivery.EXACTLY_ONCE:
            attempt = _at(SinkIdentity(self._job), 0, self._job)
        elif attempt is not None and options.query:
            attempt = replace(attempt, run=self._job)
        return _write(options, attempt, iterator)

    def commit(self, messages: Messages) -> None:
        _commit(self._options, messages)

    def abort(self, messages: Messages) -> None:
        _abort(self._options, messages)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `writeStream`. Complete mode (`overwrite`) appends all rows of each batch."""
    return StreamWriter(_checked(options, schema))


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """For `write`. Overwriting is not possible in a topic."""
    if overwrite:
        raise SinkError(
            "Save mode overwrite is not allowed: records are appended to a topic. Use"
            " .mode('append')"
        )
    return BatchWriter(_checked(options, schema))


def _checked(options: Mapping[str, str], schema: StructType) -> WriteOptions:
    checked = write_options(dict(options))
    check_columns(schema, checked)
    return checked


def _attempt(options: WriteOptions, *, name: str) -> TaskAttempt | None:
    """The attempt, with its query and batch; None outside a streaming query."""
    context = _context()
    if context.getLocalProperty(CONTINUOUS) == "true":
        raise SinkError("continuous processing is not supported: use a micro-batch trigger")
    if options.query and options.first is None:
        assert options.batch is not None
        if options.run:
            number = options.batch + int(context.getLocalProperty(BATCH_ID) or 0)
            attempt = _at(SinkIdentity(options.query, name), number, options.run)
            return replace(attempt, owned=True)
        return _at(SinkIdentity(options.query, name), options.batch, "")
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if not query or not batch:
        return None
    identity, number = SinkIdentity(options.query or query, name), (options.first or 0) + int(batch)
    return _at(identity, number, context.getLocalProperty(RUN_ID) or query)


def _at(identity: SinkIdentity, batch: int, run: str) -> TaskAttempt:
    context = _context()
    return TaskAttempt(identity, batch, run, context.partitionId(), context.attemptNumber())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this runs in a task of Spark"
    return context


def _write(
    options: WriteOptions, attempt: TaskAttempt | None, rows: Iterable[Any]
) -> SinkCommitMessage:
    if attempt is None or options.delivery is Delivery.AT_LEAST_ONCE:
        return SinkCommitMessage(write_at_least_once(options, rows))
    result = write_exactly_once(options, attempt, rows)
    return SinkCommitMessage(result.transaction.rows, result)


def _commit(options: WriteOptions, messages: Messages) -> None:
    for identity, results in _results(messages).items():
        attempt = results[0].attempt
        commit_log_of(options, identity).commit(
            batch=attempt.batch,
            run=attempt.run,
            transactions=[result.transaction for result in results],
            outputs=results[0].outputs,
        )


def _abort(options: WriteOptions, messages: Messages) -> None:
    for identity, results in _results(messages).items():
        attempt = results[0].attempt
        written = [result.transaction for result in results]
        commit_log_of(options, identity).abort(
            batch=attempt.batch, run=attempt.run, transactions=written
        )


def _results(messages: Messages) -> dict[SinkIdentity, list[WriteResult]]:
    """The results of tasks with output, by sink identity; usually all have the same."""
    results: dict[SinkIdentity, list[WriteResult]] = {}
    for message in messages:
        if isinstance(message, SinkCommitMessage) and message.result is not None:
            written = message.result.transaction
            if written.producer is not None or written.skipped:
                results.setdefault(message.result.attempt.identity, []).append(message.result)
    return results
