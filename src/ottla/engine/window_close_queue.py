"""The windows that are still open, where only final results are emitted (ON_WINDOW_CLOSE, KIP-825).

The store orders windows by key; this queue orders them by the time at which they close. It is in
memory only: a task builds it with one scan of the store when it starts.

Kafka looks for closed windows at most once per second of wall-clock time, and after it has stored
the record that closed them. So when time jumps by more than the retention, it loses the windows
that this very record expires. Here the first record past a window's end emits it, before that
record is stored: the results are the same, and none is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

OpenWindow = tuple[int, int, bytes]
"""What decides when it closes (its end, or its start for windows of one size), the other bound, the
key."""


class WindowCloseQueue:
    """`walk` yields every window of the store. An earlier incarnation of the task has emitted those
    before `emitted_ms`."""

    def __init__(self, walk: Callable[[], Iterable[OpenWindow]], emitted_ms: int) -> None:
        self._walk = walk
        self._emitted_ms = emitted_ms
        self._heap: list[OpenWindow] | None = None
        self._present: set[OpenWindow] = set()

    def add(self, window: OpenWindow) -> None:
        heap = self._ready()
        if window not in self._present:
            self._present.add(window)
            heappush(heap, window)

    def before(self, time_ms: int) -> Iterator[OpenWindow]:
        """Removes and yields the windows before this time, ordered by time, then by key."""
        heap = self._ready()
        while heap and heap[0][0] < time_ms:
            window = heappop(heap)
            self._present.discard(window)
            yield window

    def _ready(self) -> list[OpenWindow]:
        if self._heap is None:
            self._present = {window for window in self._walk() if window[0] >= self._emitted_ms}
            self._heap = list(self._present)
            heapify(self._heap)
        return self._heap
