"""Kafka's exception handlers, for records that can't be read, processed or written (KIP-1033).

A handler takes a Failure. If it raises, the task fails. If it returns rows (records for a dead
letter queue, often none), the task continues with the next record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.engine.failure_location import failure_location
from ottla.engine.records import AnyRecord, Headers, InputRow, OutputRow

LOG: Final = logging.getLogger(__name__)


class FailureKind(Enum):
    DESERIALIZATION = "deserialization"
    PROCESSING = "processing"
    PRODUCTION = "production"


class StreamsError(RuntimeError):
    """A task failed; the cause is chained."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    task_id: str
    node: str
    row: InputRow | None
    """The input row; None in a punctuation."""
    record: AnyRecord | None
    """The node's input record; None if deserialization failed."""
    error: Exception


ExceptionHandler = Callable[[Failure], Iterable[OutputRow]]


def fail(failure: Failure) -> Iterable[OutputRow]:
    """LogAndFail, the default."""
    raise StreamsError(describe(failure)) from failure.error


def log_and_continue(failure: Failure) -> Iterable[OutputRow]:
    LOG.warning("%s: %s", describe(failure), failure.error)
    return ()


def dead_letters(topic: str) -> ExceptionHandler:
    """Logs, and sends the row as it was read to `topic`, with the error in its headers."""

    def handle(failure: Failure) -> Iterable[OutputRow]:
        log_and_continue(failure)
        row = failure.row
        if row is None:
            return ()
        headers = (*row.headers, *error_headers(failure))
        return (OutputRow(topic, row.key, row.value, row.timestamp, headers),)

    return handle


def error_headers(failure: Failure) -> Headers:
    """As KIP-1034 names them."""
    row = failure.row
    names = {
        "exception": type(failure.error).__name__,
        "message": str(failure.error),
        "topic": "" if row is None else row.origin or row.topic,
        "partition": "" if row is None else str(row.partition),
        "offset": "" if row is None else str(row.offset),
    }
    return tuple((f"__streams.errors.{name}", text.encode()) for name, text in names.items())


def describe(failure: Failure) -> str:
    row = failure.row
    place = "" if row is None else f", topic={row.topic}, partition={row.partition}"
    offset = "" if row is None else f", offset={row.offset}"
    what = {
        FailureKind.DESERIALIZATION: "Exception caught during Deserialization",
        FailureKind.PROCESSING: "Exception caught in process",
        FailureKind.PRODUCTION: "Error encountered trying to send record",
    }[failure.kind]
    line = failure_location(failure.error)
    where = f" ({line})" if line else ""
    return f"{what}. taskId={failure.task_id}, processor={failure.node}{place}{offset}{where}"
