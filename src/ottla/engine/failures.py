"""What happens to a record that can't be read, processed or written: Kafka's exception handlers.

A handler is given a Failure. It raises the failure's error, and the task fails; or it returns rows
(letters to a dead letter topic, often none), and the task goes on with the next record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.engine.blame import line_of
from ottla.engine.records import AnyRecord, Headers, Input, Output

LOG: Final = logging.getLogger(__name__)


class FailureKind(Enum):
    DESERIALIZATION = "deserialization"
    PROCESSING = "processing"
    PRODUCTION = "production"


class StreamsError(RuntimeError):
    """A task can't go on; the cause is chained."""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: FailureKind
    task_id: str
    node: str
    row: Input | None
    """The row that was read, if one was: a punctuation has none."""
    record: AnyRecord | None
    """The record that the node was given; None where it could not be read."""
    error: Exception


OnFailure = Callable[[Failure], Iterable[Output]]


def fail(failure: Failure) -> Iterable[Output]:
    """LogAndFail: what is done unless something else is asked for."""
    raise StreamsError(describe(failure)) from failure.error


def log_and_continue(failure: Failure) -> Iterable[Output]:
    LOG.warning("%s: %s", describe(failure), failure.error)
    return ()


def dead_letters(topic: str) -> OnFailure:
    """Logs, and sends the row as it was read to `topic`, with what happened in its headers."""

    def handle(failure: Failure) -> Iterable[Output]:
        log_and_continue(failure)
        row = failure.row
        if row is None:
            return ()
        headers = (*row.headers, *error_headers(failure))
        return (Output(topic, row.key, row.value, row.timestamp, headers),)

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
    line = line_of(failure.error)
    where = f" ({line})" if line else ""
    return f"{what}. taskId={failure.task_id}, processor={failure.node}{place}{offset}{where}"
