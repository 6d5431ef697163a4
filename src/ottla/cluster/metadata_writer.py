"""Decide on the newest image, commit the writes, apply them here; on a conflict decide again.

Several brokers write to one store, so every write names the version that it replaces. The broker
that loses a race reads the newer state and decides again. Committed writes are applied to this
broker's image before its client gets the response.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from ottla.cluster.image import MetadataImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.cluster.store import (
    Check,
    Conflict,
    Create,
    Delete,
    KeyChange,
    MetaStore,
    MetaStoreError,
    Put,
    VersionedValue,
    Write,
)
from ottla.errors import ErrorCode, KafkaError

TRIES_MAX = 10
SINGLE_TRIES_MAX = 3
"""Attempts that read only the conflicting key again; later ones refresh the whole image."""
WRITES_AT_ONCE_MAX = 500
"""Independent writes in one commit, because stores limit the size of a commit."""

Result = TypeVar("Result")
Name = TypeVar("Name", bound=Hashable)
Decision = Callable[[MetadataImage], tuple[list[Write], Result]]
Fence = Callable[[], Check]
"""The check that every commit of the controller includes; KafkaError if it is known to fail."""

log = logging.getLogger("ottla.cluster")


class MetadataWriter:
    """One broker's writes to the store."""

    def __init__(self, store: MetaStore, metadata: MetadataCache) -> None:
        self._store = store
        self._metadata = metadata

    async def commit_decision(self, decide: Decision[Result], fence: Fence | None = None) -> Result:
        """All of a decision in one commit."""
        for attempt in range(TRIES_MAX):
            writes, result = decide(self._metadata.image)
            if await self._try_commit(writes, fence, attempt):
                return result
        raise _too_fast()

    async def commit_for_each(
        self,
        names: Iterable[Name],
        decide_one: Callable[[MetadataImage, Name], list[Write]],
        *,
        validate_only: bool = False,
        fence: Fence | None = None,
    ) -> dict[Name, KafkaError | None]:
        """Decide on each name separately, then commit all writes together."""

        def decide(image: MetadataImage) -> tuple[list[Write], dict[Name, KafkaError | None]]:
            results: dict[Name, KafkaError | None] = {}
            writes: list[Write] = []
            for name in names:
                try:
                    writes.extend(decide_one(image, name))
                    results[name] = None
                except KafkaError as error:
                    results[name] = error
            return ([] if validate_only else writes), results

        return await self.commit_decision(decide, fence)

    async def commit_until_done(
        self, decide: Callable[[MetadataImage], list[Write]], fence: Fence | None = None
    ) -> int:
        """Commit independent writes until `decide` has none left; returns how many there were."""
        count = failures = 0
        while True:
            writes = decide(self._metadata.image)[:WRITES_AT_ONCE_MAX]
            if not writes:
                return count
            if await self._try_commit(writes, fence, failures):
                count += len(writes)
                failures = 0
                continue
            failures += 1
            if failures == TRIES_MAX:
                raise _too_fast()

    async def commit(self, writes: Sequence[Write], fence: Fence | None = None) -> None:
        """Commit and apply the writes; the caller handles Conflict."""
        if not writes:
            return
        if fence is not None:
            writes = [fence(), *writes]
        if len(writes) > WRITES_AT_ONCE_MAX:  # a large topic: let other requests run in between
            await asyncio.sleep(0)
        try:
            versions = await self._store.commit(writes)
        except Conflict:
            raise
        except MetaStoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        if len(writes) > WRITES_AT_ONCE_MAX:
            await asyncio.sleep(0)
        self._metadata.apply(_changes(writes, versions))

    async def _try_commit(self, writes: list[Write], fence: Fence | None, attempt: int) -> bool:
        try:
            await self.commit(writes, fence)
        except Conflict as conflict:
            if fence is not None and conflict.key == fence().key:
                raise KafkaError(ErrorCode.NOT_CONTROLLER) from conflict
            log.info("Retrying a metadata change after a conflict: %s", conflict)
            await self._catch_up(conflict.key, attempt)
            return False
        return True

    async def _catch_up(self, key: str, attempt: int) -> None:
        try:
            if attempt < SINGLE_TRIES_MAX:
                self._metadata.apply([KeyChange(key, await self._store.get(key))])
            else:
                await self._metadata.refresh()
        except MetaStoreError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error


def _too_fast() -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "metadata changes too fast to keep up")


def _changes(writes: Sequence[Write], versions: Sequence[int]) -> Iterable[KeyChange]:
    for write, version in zip(writes, versions, strict=True):
        match write:
            case Create(key, value) | Put(key, value):
                yield KeyChange(key, VersionedValue(value, version))
            case Delete(key):
                yield KeyChange(key, None)
            case Check():
                pass
