"""Cells of stores as records of changelog topics, as Kafka Streams writes them, and back.

A timestamp that lies in front of a value in the cell is the record's own timestamp in the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from ottla.engine.records import Output
from ottla.engine.serdes import LONG
from ottla.engine.state_file import Change
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.task import Task

TIMESTAMPED: Final = (StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW)
_timestamp: Final = LONG.unpack_from
# An Output's own constructor takes three times as long, and there is one for each cell.
_output: Final[Callable[[tuple[Any, ...]], Output]] = partial(tuple.__new__, Output)


def changelog_rows(
    topic: str, spec: StoreSpec, changes: Iterable[Change], task: Task
) -> list[Output]:
    """What has changed in one store, in the partition that has the task's number."""
    now_ms, number = max(task.stream_time, 0), task.number
    if spec.kind not in TIMESTAMPED:
        return [_output((topic, key, value, now_ms, (), number)) for _, key, value in changes]
    size = LONG.size
    return [
        _output((topic, key, None, now_ms, (), number))
        if value is None
        else _output((topic, key, value[size:], max(_timestamp(value)[0], 0), (), number))
        for _, key, value in changes
    ]


def changelog_cell(spec: StoreSpec, value: bytes | None, timestamp: int) -> bytes | None:
    """What lay in the cell."""
    if value is not None and spec.kind in TIMESTAMPED:
        return LONG.pack(timestamp) + value
    return value
