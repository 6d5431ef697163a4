"""How many segments have a file open, or an index in memory, at one time.

A log of a thousand segments needs one descriptor if one of them is read. Those that were not used
since the hand of the clock last passed lose their file, or index, first; they get it back when
they are asked for something.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.storage.segment import Segment

OPEN_FILES_MAX = 1000
INDEX_SIZE_MAX = 32 * 1024 * 1024


class Residents:
    """Shared by all logs of a process."""

    __slots__ = ("_indexed", "_open", "files_max", "index_size_max")

    def __init__(
        self, *, files_max: int = OPEN_FILES_MAX, index_size_max: int = INDEX_SIZE_MAX
    ) -> None:
        self.files_max = max(1, files_max)
        self.index_size_max = index_size_max
        self._open: dict[Segment, None] = {}  # in the order in which the hand passes them
        self._indexed: dict[Segment, None] = {}

    @property
    def index_size(self) -> int:
        return sum(segment.index_size() for segment in self._indexed)

    def opened(self, segment: Segment) -> None:
        """`segment` has a file now; another one may have to go."""
        queue = self._open
        queue.pop(segment, None)
        queue[segment] = None
        while len(queue) > self.files_max:
            other = next(iter(queue))
            del queue[other]
            if other.used and other is not segment:
                other.used = False
                queue[other] = None
            elif other is segment:
                queue[other] = None
            else:
                other.file = None

    def indexed(self, segment: Segment) -> None:
        """`segment` has its indexes in memory now."""
        queue = self._indexed
        queue.pop(segment, None)
        queue[segment] = None
        size = self.index_size
        while size > self.index_size_max and len(queue) > 1:
            other = next(iter(queue))
            del queue[other]
            if other.index_used and other is not segment:
                other.index_used = False
                queue[other] = None
            elif other is segment:
                queue[other] = None
            else:
                size -= other.index_size()
                other.unload_indexes()

    def forget(self, segment: Segment) -> None:
        """`segment` is removed, or its log closed."""
        self._open.pop(segment, None)
        self._indexed.pop(segment, None)
        segment.file = None
        segment.unload_indexes()
