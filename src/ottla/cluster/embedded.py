"""The MetaStore inside the broker: a dictionary, and a journal from which it is made again.

Nothing here waits for anybody, so its coroutines never give up the loop: a topic is created, on
disk and visible to all who follow, before the `await` returns. The price is that the loop stands
still for the flush of a commit, which is rare and short; see docs/decisions/0005-metadata-store.md.

Several brokers of one process and one loop share it, each through a `session` of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from ottla.cluster.changes import Changes
from ottla.cluster.journal import DISK, GROWTH_BYTES_MIN, Journal, JournalDisk
from ottla.cluster.staging import stage
from ottla.cluster.store import (
    Change,
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

    def __init__(
        self,
        path: Path | None,
        *,
        sync: bool = True,
        journal_growth_bytes_min: int = GROWTH_BYTES_MIN,
        disk: JournalDisk = DISK,
    ) -> None:
        self._journal: Journal | None = None
        if path is not None:
            growth = journal_growth_bytes_min
            self._journal = Journal(path, sync=sync, growth_bytes_min=growth, disk=disk)
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
        return self.hold_key(key, value)

    def changes(self, prefix: str) -> Changes:
        self._check_open()
        return Changes(self._watchers, prefix)

    def session(self) -> EmbeddedSession:
        """The same data for another broker of this process, whose holds are its own."""
        self._check_open()
        return EmbeddedSession(self)

    async def close(self) -> None:
        """Of sessions, too, as a server's end would be."""
        if self._closed:
            return
        for hold in list(self._held.values()):
            self.let_go(hold)
        self._closed = True
        for watcher in list(self._watchers):
            watcher.close()
        if self._journal is not None:
            self._journal.close()

    def hold_key(self, key: str, value: bytes) -> EmbeddedHold:
        self._check_open()
        check_key(key)
        if key in self._entries:
            raise Conflict(key, "is held already")
        hold = EmbeddedHold(self, key, Entry(value, 0))
        self._held[key] = hold
        self._publish([Change(key, hold.entry)])
        return hold

    def let_go(self, hold: EmbeddedHold) -> None:
        """End a hold, as its owner's release or as a lost session would."""
        if self._held.get(hold.key) is hold:
            self._publish([Change(hold.key, None)])
        hold.lost.set()

    def _commit(self, writes: Sequence[Write]) -> Sequence[int]:
        self._check_open()
        for write in writes:
            if write.key in self._held and isinstance(write, Put):
                raise Conflict(write.key, "is held, and stays as its holder made it")
        versions, staged = stage(self._entries.get, writes)
        changes = [Change(key, entry) for key, entry in staged.items()]
        lasting = [change for change in changes if change.key not in self._held]
        if lasting and self._journal is not None:
            self._journal.append(lasting)
        self._publish(changes)
        if lasting:
            self._rewrite_if_outgrown()
        return versions

    def _publish(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.entry is None:
                self._entries.pop(change.key, None)
                if (hold := self._held.pop(change.key, None)) is not None:
                    hold.lost.set()
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


class EmbeddedSession:
    """A broker's part in a store that it shares: its holds and its followers end with it."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._holds: list[EmbeddedHold] = []
        self._watchers: list[Changes] = []
        self._closed = False

    async def get(self, key: str) -> Entry | None:
        return await self._open_store().get(key)

    async def list(self, prefix: str) -> dict[str, Entry]:
        return await self._open_store().list(prefix)

    async def create(self, key: str, value: bytes) -> int:
        return await self._open_store().create(key, value)

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return await self._open_store().put(key, value, version=version)

    async def delete(self, key: str, *, version: int) -> None:
        await self._open_store().delete(key, version=version)

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        return await self._open_store().commit(writes)

    async def hold(self, key: str, value: bytes) -> EmbeddedHold:
        hold = self._open_store().hold_key(key, value)
        self._holds = [each for each in self._holds if not each.lost.is_set()] + [hold]
        return hold

    def changes(self, prefix: str) -> Changes:
        watcher = self._open_store().changes(prefix)
        self._watchers.append(watcher)
        return watcher

    async def close(self) -> None:
        self.expire()
        self._closed = True
        for watcher in self._watchers:
            watcher.close()

    def expire(self) -> None:
        """As if nothing had been heard from us for too long: holds are gone, the rest goes on."""
        for hold in self._holds:
            self._store.let_go(hold)
        self._holds.clear()

    def _open_store(self) -> EmbeddedStore:
        if self._closed:
            raise StoreError("the metadata store is closed")
        return self._store


class EmbeddedHold:
    """A key held in this process."""

    def __init__(self, store: EmbeddedStore, key: str, entry: Entry) -> None:
        self._store = store
        self.key = key
        self.entry = entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        self._store.let_go(self)
