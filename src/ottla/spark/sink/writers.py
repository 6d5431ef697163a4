"""The sink as Spark sees it: writers whose `write` runs in tasks, and `commit` at the driver."""

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
from ottla.spark.sink.decisions import Identity
from ottla.spark.sink.options import SinkError, WriteOptions, write_options
from ottla.spark.sink.rows import check_columns
from ottla.spark.sink.writing import Told, Turn, decisions_of, write_once, write_plainly

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

# What Spark tells the tasks of a streaming query, and those of the writes in its foreachBatch.
QUERY_ID: Final = "sql.streaming.queryId"
BATCH_ID: Final = "streaming.sql.batchId"
RUN_ID: Final = "spark.jobGroup.id"
CONTINUOUS: Final = "__is_continuous_processing"

Messages = Sequence[WriterCommitMessage | None]


@dataclass
class Message(WriterCommitMessage):
    """How much a task wrote; `told` by one that wrote exactly once."""

    rows: int
    told: Told | None = None


class StreamWriter(DataSourceStreamArrowWriter):
    """The sink of a streaming query."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[Any]) -> Message:
        return _write(self._options, _turn(self._options, name=self._options.name), iterator)

    def commit(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        _commit(self._options, messages)

    def abort(self, messages: Messages, batchId: int) -> None:  # noqa: N803
        _abort(self._options, messages)


class BatchWriter(DataSourceArrowWriter):
    """A batch write: alone, or in a streaming query's foreachBatch.

    Alone it is a query of one batch, if it is to be exactly once at all.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._job = str(uuid.uuid4())

    def write(self, iterator: Iterator[Any]) -> Message:
        options = self._options
        # Two writes of one foreachBatch mostly go to two topics: that tells them apart.
        turn = _turn(options, name=options.name or options.topic)
        if turn is None and options.delivery is Delivery.EXACTLY_ONCE:
            turn = _at(Identity(self._job), 0, self._job)
        elif turn is not None and options.query:
            turn = replace(turn, run=self._job)
        return _write(options, turn, iterator)

    def commit(self, messages: Messages) -> None:
        _commit(self._options, messages)

    def abort(self, messages: Messages) -> None:
        _abort(self._options, messages)


def stream_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceStreamArrowWriter:
    """For `writeStream`. Complete mode (`overwrite`) writes all rows of each batch, as they are."""
    return StreamWriter(_checked(options, schema))


def batch_writer(
    options: Mapping[str, str], schema: StructType, overwrite: bool
) -> DataSourceArrowWriter:
    """For `write`. A topic has no rows that could be replaced."""
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


def _turn(options: WriteOptions, *, name: str) -> Turn | None:
    """Which batch of which query this task belongs to; None: none that Spark told of."""
    context = _context()
    if context.getLocalProperty(CONTINUOUS) == "true":
        raise SinkError("continuous processing has no batches: use a trigger with micro-batches")
    if options.query and options.first is None:
        assert options.batch is not None
        if options.run:
            number = options.batch + int(context.getLocalProperty(BATCH_ID) or 0)
            turn = _at(Identity(options.query, name), number, options.run)
            return replace(turn, owned=True)
        return _at(Identity(options.query, name), options.batch, "")
    query, batch = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if not query or not batch:
        return None
    identity, number = Identity(options.query or query, name), (options.first or 0) + int(batch)
    return _at(identity, number, context.getLocalProperty(RUN_ID) or query)


def _at(identity: Identity, batch: int, run: str) -> Turn:
    context = _context()
    return Turn(identity, batch, run, context.partitionId(), context.attemptNumber())


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "this runs in a task of Spark"
    return context


def _write(options: WriteOptions, turn: Turn | None, rows: Iterable[Any]) -> Message:
    if turn is None or options.delivery is Delivery.AT_LEAST_ONCE:
        return Message(write_plainly(options, rows))
    told = write_once(options, turn, rows)
    return Message(told.written.rows, told)


def _commit(options: WriteOptions, messages: Messages) -> None:
    for identity, told in _told(messages).items():
        turn = told[0].turn
        decisions_of(options, identity).decide(
            batch=turn.batch,
            run=turn.run,
            written=[each.written for each in told],
            outputs=told[0].outputs,
        )


def _abort(options: WriteOptions, messages: Messages) -> None:
    for identity, told in _told(messages).items():
        turn = told[0].turn
        written = [each.written for each in told]
        decisions_of(options, identity).abort(batch=turn.batch, run=turn.run, written=written)


def _told(messages: Messages) -> dict[Identity, list[Told]]:
    """What tasks say that had something to write, by whose it is: mostly all of the same sink."""
    told: dict[Identity, list[Told]] = {}
    for message in messages:
        if isinstance(message, Message) and message.told is not None:
            written = message.told.written
            if written.producer is not None or written.skipped:
                told.setdefault(message.told.turn.identity, []).append(message.told)
    return told
