"""A bound on open segment files and on indexes in memory, for all logs of a process.

A log of a thousand segments needs one descriptor if one of them is read. Eviction is by second
chance (the clock algorithm): a segment that was used since it was last considered is passed over
once. An evicted segment opens its file, or loads its index, when it is next read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.storage.log_segment import LogSegment

OPEN_FILES_MAX = 1000
INDEX_SIZE_MAX = 32 * 1024 * 1024


class OpenSegmentCache:
    """The segments that have a file open, and those that have their indexes loaded."""

    __slots__ = ("_indexed", "_open", "files_max", "index_size_max")

    def __init__(
        self, *, files_max: int = OPEN_FILES_MAX, index_size_max: int = INDEX_SIZE_MAX
    ) -> None:
        self.files_max = max(1, files_max)
        self.index_size_max = index_size_max
        self._open: dict[LogSegment, None] = {}  # in the order in which they are considered
        self._indexed: dict[LogSegment, None] = {}

    @property
    def index_size(self) -> int:
        return sum(segment.index_size() for segment in self._indexed)

    def opened(self, segment: LogSegment) -> None:
        """`segment` opened its file; another one may have to close its own."""
        queue = self._open
        queue.pop(segment, None)
        queue[segment] = None
        while len(queue) > self.files_max:
            # Dropping the reference closes the file once no fetch holds it. Each turn clears a
            # mark or drops a file, so the loop ends after two rounds at most.
            other = next(iter(queue))
            del queue[other]
            if other.used and other is not segment:
                other.used = False
                queue[other] = None
            elif other is segment:
                queue[other] = None
            else:
                other.file = None

    def indexed(self, segment: LogSegment) -> None:
        """`segment` loaded its indexes; others may have to unload theirs."""
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

    def forget(self, segment: LogSegment) -> None:
        """`segment` is deleted, or its log is closed."""
        self._open.pop(segment, None)
        self._indexed.pop(segment, None)
        segment.file = None
        segment.unload_indexes()
