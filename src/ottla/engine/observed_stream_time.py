"""The observed stream time of a windowed node, and its warnings about dropped records.

It is the largest timestamp that this node has seen, not the task's stream time, so records that an
earlier filter removed do not close its windows. It is stored with the task's state.
"""

from __future__ import annotations

import logging

from ottla.engine.processors import ProcessorContext
from ottla.engine.records import Window

log = logging.getLogger(__name__)

NEVER = -1


class ObservedStreamTime:
    def __init__(self, context: ProcessorContext) -> None:
        self._numbers = context.numbers
        self._time_name = f"{context.node}/observed"
        self._emitted_name = f"{context.node}/told"
        self.time_ms = self._numbers.get(self._time_name, NEVER)

    def at(self, timestamp: int) -> int:
        """Advances to this timestamp if it is later; returns the observed stream time."""
        if timestamp > self.time_ms:
            self._numbers[self._time_name] = self.time_ms = timestamp
        return self.time_ms

    @property
    def emitted_ms(self) -> int:
        """With ON_WINDOW_CLOSE: windows that ended before this time have been emitted."""
        return self._numbers.get(self._emitted_name, NEVER)

    @emitted_ms.setter
    def emitted_ms(self, time_ms: int) -> None:
        self._numbers[self._emitted_name] = time_ms


def drop_late(context: ProcessorContext, timestamp: int, window: Window, close_ms: int) -> None:
    log.warning(
        "Skipping record for expired window. %s timestamp=[%d] window=[%d,%d] expiration=[%d] "
        "streamTime=[%d]",
        *(record_location(context), timestamp, *window, close_ms, context.stream_time()),
    )


def drop_null(context: ProcessorContext, what: str) -> None:
    log.warning("Skipping record due to null %s. %s", what, record_location(context))


def record_location(context: ProcessorContext) -> str:
    found = context.record_metadata
    if found is None:
        return "Topic, partition, and offset not known."
    return f"topic=[{found.topic}] partition=[{found.partition}] offset=[{found.offset}]"
