"""Producer ids: given out one by one, taken from the metadata store a block at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

# Takes nothing, gives the first id of a new block and the block's length.
Allocate = Callable[[], Awaitable[tuple[int, int]]]


class ProducerIds:
    """Ids of the current block; a new block when it is used up."""

    def __init__(self, allocate: Allocate) -> None:
        self._allocate = allocate
        self._next = 0
        self._end = 0
        self._refill = asyncio.Lock()

    async def next(self) -> int:
        if self._next == self._end:
            async with self._refill:
                if self._next == self._end:
                    first, count = await self._allocate()
                    self._next, self._end = first, first + count
        given = self._next
        self._next += 1
        return given
