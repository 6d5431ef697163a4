"""What a windowed node has seen of time, and what it says of a record that it does not take.

It is the largest timestamp that came to this very node, not the task's: what a filter before it
took away does not close its windows. It outlives the process with the task.
"""

from __future__ import annotations

import logging

from ottla.engine.processors import Context
from ottla.engine.records import Window

log = logging.getLogger(__name__)

NEVER = -1


class Observed:
    def __init__(self, context: Context) -> None:
        self._numbers = context.numbers
        self._time_name = f"{context.node}/observed"
        self._told_name = f"{context.node}/told"
        self.time_ms = self._numbers.get(self._time_name, NEVER)

    def at(self, timestamp: int) -> int:
        """The largest timestamp, with this one."""
        if timestamp > self.time_ms:
            self._numbers[self._time_name] = self.time_ms = timestamp
        return self.time_ms

    @property
    def told_ms(self) -> int:
        """Windows that ended before were told, where only final results are."""
        return self._numbers.get(self._told_name, NEVER)

    @told_ms.setter
    def told_ms(self, time_ms: int) -> None:
        self._numbers[self._told_name] = time_ms


def drop_late(context: Context, timestamp: int, window: Window, close_ms: int) -> None:
    log.warning(
        "Skipping record for expired window. %s timestamp=[%d] window=[%d,%d] expiration=[%d] "
        "streamTime=[%d]",
        *(place(context), timestamp, *window, close_ms, context.stream_time()),
    )


def drop_null(context: Context, what: str) -> None:
    log.warning("Skipping record due to null %s. %s", what, place(context))


def place(context: Context) -> str:
    found = context.record_metadata
    if found is None:
        return "Topic, partition, and offset not known."
    return f"topic=[{found.topic}] partition=[{found.partition}] offset=[{found.offset}]"
