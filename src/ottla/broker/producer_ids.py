"""Producer ids: allocated from the metadata store in blocks, and given out one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from ottla.errors import ErrorCode, KafkaError

# Returns the first id of a new block, and the block's length.
Allocate = Callable[[], Awaitable[tuple[int, int]]]


class ProducerIds:
    """The ids of the current block; a new block is allocated when it is used up."""

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
        """True if `take` has an id to return."""
        return self._next < self._end

    async def fill(self) -> None:
        """Allocate a block if the current one is used up."""
        async with self._refill:
            if not self.at_hand:
                try:
                    first, count = await self._allocate()
                except KafkaError as error:  # the store's code, which producers do not know
                    raise KafkaError(
                        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, error.message
                    ) from error
                self._next, self._end = first, first + count

    def take(self) -> int:
        """An id without waiting. If there is none, the client has to retry, as with Kafka."""
        if not self.at_hand:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "no producer id is at hand")
        producer_id = self._next
        self._next += 1
        return producer_id
