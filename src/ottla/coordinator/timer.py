"""The deadlines of a shard, in a heap that heartbeats do not have to touch.

Every heartbeat extends a member's session, which hardly ever expires. So a deadline that moves to
a later time leaves its entry where it is in the heap; when that entry comes to the top it is pushed
again with the current deadline. To extend a session costs one dictionary write.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

TimerKey = tuple[str, str, str]  # which timer, group id, member id

# The heap is rebuilt when it holds more than twice the live entries, and this many.
_STALE_COUNT_MAX: Final = 1_024


class CoordinatorTimer:
    """Deadlines by key; the earliest is next."""

    __slots__ = ("_due_ms", "_heap", "_queued_ms")

    def __init__(self) -> None:
        self._due_ms: dict[TimerKey, int] = {}
        # The earliest entry that the heap holds for each key.
        self._queued_ms: dict[TimerKey, int] = {}
        self._heap: list[tuple[int, TimerKey]] = []

    def __len__(self) -> int:
        return len(self._due_ms)

    def __contains__(self, key: TimerKey) -> bool:
        return key in self._due_ms

    def schedule(self, key: TimerKey, due_ms: int) -> None:
        """Set the deadline of this key; it replaces the previous one."""
        self._due_ms[key] = due_ms
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or due_ms < queued_ms:
            self._queued_ms[key] = due_ms
            heappush(self._heap, (due_ms, key))
            if len(self._heap) > _STALE_COUNT_MAX and len(self._heap) > 2 * len(self._due_ms):
                self._rebuild()

    def cancel(self, key: TimerKey) -> None:
        self._due_ms.pop(key, None)

    def shift(self, step_ms: int) -> None:
        """The clock was set: every timer keeps the time that it had left."""
        self._due_ms = {key: due_ms + step_ms for key, due_ms in self._due_ms.items()}
        self._rebuild()

    def next_ms(self) -> int | None:
        """The time of the next deadline, or of one that has moved since: never too late."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> TimerKey | None:
        """Remove and return the next key that is due."""
        while self._heap and self._heap[0][0] <= now_ms:
            queued_ms, key = heappop(self._heap)
            if self._queued_ms.get(key) != queued_ms:
                continue  # an earlier entry replaced it
            del self._queued_ms[key]
            due_ms = self._due_ms.get(key)
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                del self._due_ms[key]
                return key
            self._queued_ms[key] = due_ms
            heappush(self._heap, (due_ms, key))
        return None

    def _rebuild(self) -> None:
        self._queued_ms = dict(self._due_ms)
        self._heap = [(due_ms, key) for key, due_ms in self._due_ms.items()]
        heapify(self._heap)
