"""Which windows wait for their end, where only final results are told (ON_WINDOW_CLOSE, KIP-825).

The store knows its windows by key; here they lie by the time at which they close. This order is in
memory only: it is made by one walk through the store when a task begins.

Kafka looks for closed windows at most once a second of the wall clock, and after it has stored the
record that closed them; so it loses windows that leave the store with that very record, when time
leaps by more than the retention. Here they are told with the first record behind their end, before
it is stored: the same results, and none lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush

Waiting = tuple[int, int, bytes]
"""When it may be told (the end, or for windows of one size the start), the other bound, the key."""


class Closing:
    """`walk` gives every window of the store; those before `told_ms` were told in a life before."""

    def __init__(self, walk: Callable[[], Iterable[Waiting]], told_ms: int) -> None:
        self._walk = walk
        self._told_ms = told_ms
        self._heap: list[Waiting] | None = None
        self._present: set[Waiting] = set()

    def add(self, window: Waiting) -> None:
        heap = self._ready()
        if window not in self._present:
            self._present.add(window)
            heappush(heap, window)

    def before(self, time_ms: int) -> Iterator[Waiting]:
        """Takes out what lies before this time, in the order of time and then of keys."""
        heap = self._ready()
        while heap and heap[0][0] < time_ms:
            window = heappop(heap)
            self._present.discard(window)
            yield window

    def _ready(self) -> list[Waiting]:
        if self._heap is None:
            self._present = {each for each in self._walk() if each[0] >= self._told_ms}
            self._heap = list(self._present)
            heapify(self._heap)
        return self._heap
