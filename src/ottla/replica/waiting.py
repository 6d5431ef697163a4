"""Those who wait for a partition: woken when its bytes or its high watermark move."""

from __future__ import annotations

from collections.abc import Callable

Wake = Callable[[], None]


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

    def wake_all(self) -> None:
        """Call each once. A call may take itself, or others, off the list."""
        for wake in list(self._wakes):
            wake()
