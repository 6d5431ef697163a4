"""Cells of stores as records of changelog topics, as Kafka Streams writes them, and back.

A timestamp that lies in front of a value in the cell is the record's own timestamp in the topic.
"""

from __future__ import annotations

from typing import Final

from ottla.engine.records import Output
from ottla.engine.serdes import LONG
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.task import Task

TIMESTAMPED: Final = (StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW)


def changelog_row(
    topic: str, spec: StoreSpec, key: bytes, value: bytes | None, task: Task
) -> Output:
    """In the partition that has the task's number."""
    timestamp = max(task.stream_time, 0)
    if value is not None and spec.kind in TIMESTAMPED:
        timestamp = max(LONG.unpack_from(value)[0], 0)
        value = value[LONG.size :]
    return Output(topic, key, value, timestamp, (), task.number)


def changelog_cell(spec: StoreSpec, value: bytes | None, timestamp: int) -> bytes | None:
    """What lay in the cell."""
    if value is not None and spec.kind in TIMESTAMPED:
        return LONG.pack(timestamp) + value
    return value
