"""Those who wait for a partition: woken when its bytes or its high watermark move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

# Called with the number of bytes that came, so that who waits for many need not look each time.
Wake = Callable[[int], None]

# For what is no append, and worth a look whatever one waits for.
ANYTHING: Final = 1 << 62


class Waiting:
    """The wake-up calls registered on one partition, in the order of registration."""

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
        """Call each once. A call may take itself, or others, off the list."""
        for wake in list(self._wakes):
            wake(size)
