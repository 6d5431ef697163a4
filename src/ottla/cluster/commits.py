"""Decide on the newest image, commit what was decided, publish it here; decide anew on a conflict.

Several brokers write to one store, so every write says which version it replaces. Whoever was too
late learns the newer state and thinks again; what was committed is in this broker's image before
its client hears of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ottla.cluster.image import Image
from ottla.cluster.metadata import Metadata
from ottla.cluster.store import (
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    MetaStore,
    Put,
    StoreError,
    Write,
)
from ottla.errors import ErrorCode, KafkaError

TRIES_MAX = 10
SINGLE_TRIES_MAX = 3
"""So often the one key of a conflict is read again; after that, everything is."""
WRITES_AT_ONCE_MAX = 500
"""Of writes that don't belong together, so many go into one commit: stores have a limit to it."""

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)
Decision = Callable[[Image], tuple[list[Write], Result]]
Fence = Callable[[], Check]
"""What must still be true for our writes to count; raises KafkaError if it is known not to be."""

log = logging.getLogger("ottla.cluster")


class Commits:
    """One broker's writes to the store."""

    def __init__(self, store: MetaStore, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata

    async def carry_out(self, decide: Decision[Result], fence: Fence | None = None) -> Result:
        """All of a decision in one commit."""
        for attempt in range(TRIES_MAX):
            writes, result = decide(self._metadata.image)
            if await self._try(writes, fence, attempt):
                return result
        raise _too_fast()

    async def for_each(
        self,
        names: Iterable[Name],
        decide_one: Callable[[Image, Name], list[Write]],
        *,
        validate_only: bool = False,
        fence: Fence | None = None,
    ) -> dict[Name, KafkaError | None]:
        """Decide on each name by itself, commit what came out of it all together."""

        def decide(image: Image) -> tuple[list[Write], dict[Name, KafkaError | None]]:
            results: dict[Name, KafkaError | None] = {}
            writes: list[Write] = []
            for name in names:
                try:
                    writes.extend(decide_one(image, name))
                    results[name] = None
                except KafkaError as error:
                    results[name] = error
            return ([] if validate_only else writes), results

        return await self.carry_out(decide, fence)

    async def carry_out_each(
        self, decide: Callable[[Image], list[Write]], fence: Fence | None = None
    ) -> int:
        """Writes that do not depend on each other, until there is nothing left to decide.

        Gives how many there were.
        """
        count = failures = 0
        while True:
            writes = decide(self._metadata.image)[:WRITES_AT_ONCE_MAX]
            if not writes:
                return count
            if await self._try(writes, fence, failures):
                count += len(writes)
                failures = 0
                continue
            failures += 1
            if failures == TRIES_MAX:
                raise _too_fast()

    async def commit(self, writes: Sequence[Write], fence: Fence | None = None) -> None:
        """Conflict is the caller's to deal with."""
        if not writes:
            return
        if fence is not None:
            writes = [fence(), *writes]
        if len(writes) > WRITES_AT_ONCE_MAX:  # of a large topic: others have their turn in between
            await asyncio.sleep(0)
        try:
            versions = await self._store.commit(writes)
        except Conflict:
            raise
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if len(writes) > WRITES_AT_ONCE_MAX:
            await asyncio.sleep(0)
        self._metadata.apply(_changes(writes, versions))

    async def _try(self, writes: list[Write], fence: Fence | None, attempt: int) -> bool:
        try:
            await self.commit(writes, fence)
        except Conflict as conflict:
            if fence is not None and conflict.key == fence().key:
                raise KafkaError(ErrorCode.NOT_CONTROLLER) from conflict
            log.info("deciding anew: %s", conflict)
            await self._catch_up(conflict.key, attempt)
            return False
        return True

    async def _catch_up(self, key: str, attempt: int) -> None:
        try:
            if attempt < SINGLE_TRIES_MAX:
                self._metadata.apply([Change(key, await self._store.get(key))])
            else:
                await self._metadata.refresh()
        except StoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _too_fast() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "metadata changes too fast to keep up")


def _changes(writes: Sequence[Write], versions: Sequence[int]) -> Iterable[Change]:
    for write, version in zip(writes, versions, strict=True):
        match write:
            case Create(key, value) | Put(key, value):
                yield Change(key, Entry(value, version))
            case Delete(key):
                yield Change(key, None)
            case Check():
                pass
