"""Producer ids: given out one by one, taken from the metadata store a block at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.errors import ErrorCode, KafkaError

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
        while not self.at_hand:
            await self.fill()
        return self.take()

    @property
    def at_hand(self) -> bool:
        """Whether `take` has one to give."""
        return self._next < self._end

    async def fill(self) -> None:
        """Have an id at hand, if that can be; what is left of the block is used up first."""
        async with self._refill:
            if not self.at_hand:
                try:
                    first, count = await self._allocate()
                except KafkaError as error:  # of the metadata store, which no producer knows
                    raise KafkaError(
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message
                    ) from error
                self._next, self._end = first, first + count

    def take(self) -> int:
        """An id without waiting. If there is none, the client is told to ask again, as by Kafka."""
        if not self.at_hand:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        given = self._next
        self._next += 1
        return given
