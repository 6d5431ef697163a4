"""The MetaStore inside the broker: a dictionary, and a journal that restores it after a restart.

Its coroutines never yield to the loop: a created topic is on disk and visible to all subscribers
before the `await` returns. The price is that the loop blocks while a commit is flushed, which is
rare and short; see docs/decisions/0005-metadata-store.md.

Several brokers in one process and on one loop can share it, each through its own `session`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

from ottla.cluster.journal import DISK, GROWTH_BYTES_MIN, Journal, JournalDisk
from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.store import (
    Conflict,
    Create,
    Delete,
    KeyChange,
    MetaStoreError,
    Put,
    VersionedValue,
    Write,
    check_key,
    is_below,
)
from ottla.cluster.write_checks import check_writes

log = logging.getLogger("ottla.cluster")


class EmbeddedStore:
    """The metadata of one process. Without a path it is kept in memory only."""

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
        self._ephemeral_keys: dict[str, EmbeddedEphemeralKey] = {}
        self._subscriptions: list[KeyChanges] = []
        self._closed = False

    async def get(self, key: str) -> VersionedValue | None:
        self._check_open()
        return self._entries.get(key)

    async def list(self, prefix: str) -> dict[str, VersionedValue]:
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

    async def create_ephemeral(self, key: str, value: bytes) -> EmbeddedEphemeralKey:
        """An ephemeral key: it lasts until it is released or the process ends, and is not in the
        journal."""
        return self.create_ephemeral_key(key, value)

    def changes(self, prefix: str) -> KeyChanges:
        self._check_open()
        return KeyChanges(self._subscriptions, prefix)

    def session(self) -> EmbeddedSession:
        """The same data for another broker of this process, with its own ephemeral keys."""
        self._check_open()
        return EmbeddedSession(self)

    async def close(self) -> None:
        """Close the store and end all sessions, as if a server had stopped."""
        if self._closed:
            return
        for ephemeral in list(self._ephemeral_keys.values()):
            self.release_key(ephemeral)
        self._closed = True
        for subscription in list(self._subscriptions):
            subscription.close()
        if self._journal is not None:
            self._journal.close()

    def create_ephemeral_key(self, key: str, value: bytes) -> EmbeddedEphemeralKey:
        self._check_open()
        check_key(key)
        if key in self._entries:
            raise Conflict(key, "exists already")
        ephemeral = EmbeddedEphemeralKey(self, key, VersionedValue(value, 0))
        self._ephemeral_keys[key] = ephemeral
        self._publish([KeyChange(key, ephemeral.entry)])
        return ephemeral

    def release_key(self, ephemeral: EmbeddedEphemeralKey) -> None:
        """Delete an ephemeral key, because its owner released it or lost its session."""
        if self._ephemeral_keys.get(ephemeral.key) is ephemeral:
            self._publish([KeyChange(ephemeral.key, None)])
        ephemeral.lost.set()

    def _commit(self, writes: Sequence[Write]) -> Sequence[int]:
        self._check_open()
        for write in writes:
            if write.key in self._ephemeral_keys and isinstance(write, Put):
                raise Conflict(write.key, "is ephemeral, and only its owner may write it")
        versions, staged = check_writes(self._entries.get, writes)
        changes = [KeyChange(key, entry) for key, entry in staged.items()]
        lasting = [change for change in changes if change.key not in self._ephemeral_keys]
        # The journal first: if it fails, the commit is refused and memory is unchanged. No reader
        # sees an entry that a crash could take back.
        if lasting and self._journal is not None:
            self._journal.append(lasting)
        self._publish(changes)
        if lasting:
            self._rewrite_if_outgrown()
        return versions

    def _publish(self, changes: Sequence[KeyChange]) -> None:
        for change in changes:
            if change.entry is None:
                self._entries.pop(change.key, None)
                if (ephemeral := self._ephemeral_keys.pop(change.key, None)) is not None:
                    ephemeral.lost.set()
            else:
                self._entries[change.key] = change.entry
            for subscription in self._subscriptions:
                subscription.offer(change)

    def _rewrite_if_outgrown(self) -> None:
        if self._journal is not None and self._journal.outgrown:
            lasting = {
                k: entry for k, entry in self._entries.items() if k not in self._ephemeral_keys
            }
            try:
                self._journal.rewrite(lasting)
            except MetaStoreError as error:  # the commit itself is safe; the old file stays in use
                log.error("Could not rewrite the metadata journal, which keeps growing: %s", error)

    def _check_open(self) -> None:
        if self._closed:
            raise MetaStoreError("the metadata store is closed")


class EmbeddedSession:
    """A broker's session on a shared store: its ephemeral keys and subscriptions end with it."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self._ephemeral_keys: list[EmbeddedEphemeralKey] = []
        self._subscriptions: list[KeyChanges] = []
        self._closed = False

    async def get(self, key: str) -> VersionedValue | None:
        return await self._open_store().get(key)

    async def list(self, prefix: str) -> dict[str, VersionedValue]:
        return await self._open_store().list(prefix)

    async def create(self, key: str, value: bytes) -> int:
        return await self._open_store().create(key, value)

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return await self._open_store().put(key, value, version=version)

    async def delete(self, key: str, *, version: int) -> None:
        await self._open_store().delete(key, version=version)

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        return await self._open_store().commit(writes)

    async def create_ephemeral(self, key: str, value: bytes) -> EmbeddedEphemeralKey:
        ephemeral = self._open_store().create_ephemeral_key(key, value)
        self._ephemeral_keys = [
            known for known in self._ephemeral_keys if not known.lost.is_set()
        ] + [ephemeral]
        return ephemeral

    def changes(self, prefix: str) -> KeyChanges:
        subscription = self._open_store().changes(prefix)
        self._subscriptions.append(subscription)
        return subscription

    async def close(self) -> None:
        self.expire()
        self._closed = True
        for subscription in self._subscriptions:
            subscription.close()

    def expire(self) -> None:
        """Expire the session: its ephemeral keys are deleted, everything else goes on."""
        for ephemeral in self._ephemeral_keys:
            self._store.release_key(ephemeral)
        self._ephemeral_keys.clear()

    def _open_store(self) -> EmbeddedStore:
        if self._closed:
            raise MetaStoreError("the metadata store is closed")
        return self._store


class EmbeddedEphemeralKey:
    """An ephemeral key of this process."""

    def __init__(self, store: EmbeddedStore, key: str, entry: VersionedValue) -> None:
        self._store = store
        self.key = key
        self.entry = entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        self._store.release_key(self)
