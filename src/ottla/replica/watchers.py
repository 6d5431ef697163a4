"""Callbacks of requests that wait for a partition: for more bytes, or for a higher watermark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Called with the number of appended bytes: a fetch that waits for many need not read each time.
Wake = Callable[[int], None]

# The size for events other than appends: after these every waiting request looks again.
ANYTHING: Final = 1 << 62


class Watchers:
    """The callbacks registered on one partition, in the order of registration."""

    __slots__ = ("_wakes",)

    def __init__(self) -> None:
        self._wakes: dict[Wake, None] = {}

    def __len__(self) -> int:
        return len(self._wakes)

    def add(self, wake: Wake) -> None:
        self._wakes[wake] = None

    def discard(self, wake: Wake) -> None:
        self._wakes.pop(wake, None)

    def wake_all(self, size: int = ANYTHING) -> None:
        """Call each callback once. It may remove itself, or others."""
        for wake in list(self._wakes):
            wake(size)
