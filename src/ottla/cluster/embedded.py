"""The MetaStore inside the broker: a dictionary, and a journal from which it is made again.

Nothing here waits for anybody, so its coroutines never give up the loop: a topic is created, on
disk and visible to all who follow, before the `await` returns. The price is that the loop stands
still for the flush of a commit, which is rare and short; see docs/decisions/0005-metadata-store.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from ottla.cluster.journal import Journal
from ottla.cluster.store import (
    ANY_VERSION,
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    Put,
    StoreError,
    Write,
    check_key,
    is_below,
)

log = logging.getLogger("ottla.cluster")


class EmbeddedStore:
    """One process's metadata. Without a path it lives in memory only."""

    def __init__(self, path: Path | None, *, sync: bool = True) -> None:
        self._journal = Journal(path, sync=sync) if path is not None else None
        self._entries = dict(self._journal.entries) if self._journal is not None else {}
        self._held: dict[str, EmbeddedHold] = {}
        self._watchers: list[Changes] = []
        self._closed = False

    async def get(self, key: str) -> Entry | None:
        self._check_open()
        return self._entries.get(key)

    async def list(self, prefix: str) -> dict[str, Entry]:
        self._check_open()
        return {key: entry for key, entry in self._entries.items() if is_below(key, prefix)}

    async def create(self, key: str, value: bytes) -> int:
        return self._commit([Create(key, value)])[0]

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return self._commit([Put(key, value, version)])[0]

    async def delete(self, key: str, *, version: int) -> None:
        self._commit([Delete(key, version)])

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        return self._commit(writes)

    async def hold(self, key: str, value: bytes) -> EmbeddedHold:
        """Ours until it is released, or until this process ends: no journal remembers it."""
        self._check_open()
        check_key(key)
        if key in self._entries:
            raise Conflict(key, "is held already")
        hold = EmbeddedHold(self, key, Entry(value, 0))
        self._held[key] = hold
        self._publish([Change(key, hold.entry)])
        return hold

    def changes(self, prefix: str) -> AsyncIterator[Change]:
        self._check_open()
        watcher = Changes(self._watchers, prefix)
        self._watchers.append(watcher)
        return watcher

    async def close(self) -> None:
        if self._closed:
            return
        for hold in list(self._held.values()):
            self.let_go(hold)
        self._closed = True
        for watcher in list(self._watchers):
            watcher.close()
        if self._journal is not None:
            self._journal.close()

    def let_go(self, hold: EmbeddedHold) -> None:
        """End a hold, as its owner's release or as a lost session would."""
        if self._held.get(hold.key) is hold:
            del self._held[hold.key]
            self._publish([Change(hold.key, None)])
        hold.lost.set()

    def _commit(self, writes: Sequence[Write]) -> Sequence[int]:
        self._check_open()
        staged: dict[str, Entry | None] = {}
        versions = [self._stage(staged, write) for write in writes]
        changes = [Change(key, entry) for key, entry in staged.items()]
        if changes:
            if self._journal is not None:
                self._journal.append(changes)
            self._publish(changes)
            self._rewrite_if_outgrown()
        return versions

    def _stage(self, staged: dict[str, Entry | None], write: Write) -> int:
        """Check one write against what holds, with the writes before it done; note what it does."""
        key = write.key
        current = staged[key] if key in staged else self._entries.get(key)
        if isinstance(write, Create):
            check_key(key)
            if current is not None:
                raise Conflict(key, "exists already")
            staged[key] = Entry(write.value, 0)
            return 0
        if current is None:
            raise Conflict(key, "does not exist")
        if write.version not in (ANY_VERSION, current.version):
            raise Conflict(key, f"has version {current.version}, not {write.version}")
        if isinstance(write, Check):
            return current.version
        if key in self._held:
            raise Conflict(key, "is held, and changed only by its holder's end")
        if isinstance(write, Delete):
            staged[key] = None
            return -1
        staged[key] = Entry(write.value, current.version + 1)
        return current.version + 1

    def _publish(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.entry is None:
                self._entries.pop(change.key, None)
            else:
                self._entries[change.key] = change.entry
            for watcher in self._watchers:
                watcher.offer(change)

    def _rewrite_if_outgrown(self) -> None:
        if self._journal is not None and self._journal.outgrown:
            lasting = {k: entry for k, entry in self._entries.items() if k not in self._held}
            try:
                self._journal.rewrite(lasting)
            except StoreError as error:  # the commit itself is safe; the old file goes on
                log.error("the metadata journal keeps growing: %s", error)

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the metadata store is closed")


class EmbeddedHold:
    """A key held in this process."""

    def __init__(self, store: EmbeddedStore, key: str, entry: Entry) -> None:
        self._store = store
        self.key = key
        self.entry = entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        self._store.let_go(self)


class Changes:
    """What has changed below a prefix and was not told yet: at most one change for each key."""

    def __init__(self, watchers: list[Changes], prefix: str) -> None:
        self._watchers = watchers
        self._prefix = prefix
        self._pending: dict[str, Change] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def offer(self, change: Change) -> None:
        if is_below(change.key, self._prefix):
            self._pending.pop(change.key, None)
            self._pending[change.key] = change
            self._wake.set()

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self in self._watchers:
            self._watchers.remove(self)

    def __aiter__(self) -> Changes:
        return self

    async def __anext__(self) -> Change:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._pending))
        return self._pending.pop(key)

    async def aclose(self) -> None:
        self.close()
