"""The MetaStore of a cluster: ZooKeeper, through kazoo.

A read costs one `sync`, because the whole tree is mirrored here. Every write is a multi that checks
the versions it relies on; if the mirror turns out to be stale, it is brought up to date and the
multi is planned again.

A lost connection is an ordinary event: requests wait for the next one, and a write with an unknown
outcome is checked against the tree. An expired session ends the ephemeral keys; everything else
continues in a new session.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    KeyChange,
    MetaStoreError,
    Put,
    SessionState,
    VersionedValue,
    Write,
    check_key,
)
from ottla.cluster.write_checks import check_writes
from ottla.cluster.znode_tree import (
    MultiPlan,
    ZnodeOperation,
    orphaned_keys,
    split_writes,
    versions_if_done,
)
from ottla.cluster.zookeeper_client import StalePlanErrors, UnknownOutcomeErrors, ZooKeeperError
from ottla.cluster.zookeeper_mirror import ZooKeeperMirror

COMMIT_BYTES_MAX: Final = 900_000
"""A server accepts requests of 1 MB (jute.maxbuffer); larger commits are done in parts."""
PART_BYTES_MAX: Final = 800_000
TRIES_MAX: Final = 20

log = logging.getLogger("ottla.cluster")


class ZooKeeperStore:
    """A session on an ensemble, renewed when it expires; made by `await ZooKeeperStore.open()`."""

    def __init__(self, connect: str, *, session_timeout_s: float, options: dict[str, Any]) -> None:
        self._mirror = ZooKeeperMirror(
            connect,
            session_timeout_s=session_timeout_s,
            options=options,
            on_change=self._on_change,
            on_lost=self._lose_ephemeral_keys,
        )
        self._ephemeral_keys: dict[str, ZooKeeperEphemeralKey] = {}
        self._subscriptions: list[KeyChanges] = []
        self._closed = False

    @classmethod
    async def open(
        cls,
        connect: str,
        *,
        session_timeout_s: float,
        connection_timeout_s: float | None = None,
        options: dict[str, Any] | None = None,
    ) -> ZooKeeperStore:
        """Connect and read the whole tree; MetaStoreError if that takes too long.

        `connect` is host:port,... with an optional /chroot; `options` are kazoo's.
        """
        store = cls(connect, session_timeout_s=session_timeout_s, options=options or {})
        store._mirror.client.start()
        try:
            await store._mirror.wait_connected(connection_timeout_s or session_timeout_s)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_state(self) -> SessionState:
        mirror = self._mirror
        return SessionState(mirror.state, mirror.disconnects, mirror.expiries)

    async def get(self, key: str) -> VersionedValue | None:
        await self._mirror.catch_up()
        return self._mirror.tree.entry(key)

    async def list(self, prefix: str) -> dict[str, VersionedValue]:
        await self._mirror.catch_up()
        return self._mirror.tree.entries(prefix)

    async def create(self, key: str, value: bytes) -> int:
        return (await self.commit([Create(key, value)]))[0]

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return (await self.commit([Put(key, value, version)]))[0]

    async def delete(self, key: str, *, version: int) -> None:
        await self.commit([Delete(key, version)])

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        """All writes or none; `_commit_in_parts` handles those larger than a request may be.

        If the answer is lost, the commit counts as done when the tree is as the commit would have
        left it. So a counter must have values that no other broker writes, or be protected by an
        ephemeral key.
        """
        for write in writes:
            if isinstance(write, Create):
                check_key(write.key)
        unsure = False
        for _ in range(TRIES_MAX):
            if unsure:
                await self._mirror.catch_up()
                if (versions := versions_if_done(self._mirror.tree, writes)) is not None:
                    return versions
            await self._check(writes)
            plan = self._plan(writes)
            if plan.size > COMMIT_BYTES_MAX:
                return await self._commit_in_parts(writes)
            try:
                answers = await self._mirror.execute(plan)
            except UnknownOutcomeErrors:
                unsure = True
            except StalePlanErrors as error:
                log.debug("Planning a commit again, the mirror was stale: %r", error)
                await self._mirror.catch_up()
            except ZooKeeperError as error:
                raise MetaStoreError(f"ZooKeeper refused a commit: {error!r}") from error
            else:
                return [_version(plan, answers, index) for index in plan.operation_indexes]
        raise MetaStoreError("the metadata in ZooKeeper changes too fast to keep up")

    async def create_ephemeral(self, key: str, value: bytes) -> ZooKeeperEphemeralKey:
        check_key(key)
        for _ in range(TRIES_MAX):
            await self._mirror.wait_connected()
            if self._mirror.tree.entry(key) is not None:
                await self._mirror.catch_up()
            node = self._mirror.tree.nodes.get(key)
            if node is not None and not self._is_stray(key):
                raise Conflict(key, "exists already")
            if node is not None and node.value == value:
                return self._own_key(key, value)
            plan = MultiPlan(self._mirror.tree)
            if node is not None:
                plan.add(Delete(key, node.version))
            plan.create(key, value, ephemeral=True)
            try:
                await self._mirror.execute(plan)
            except UnknownOutcomeErrors:
                await self._mirror.catch_up()  # it may exist, as a stray key
            except StalePlanErrors:
                await self._mirror.catch_up()
            except ZooKeeperError as error:
                raise MetaStoreError(f"ZooKeeper refused to create {key}: {error!r}") from error
            except asyncio.CancelledError:
                self._mirror.run(self._remove_stray(key))
                raise
            else:
                return self._own_key(key, value)
        raise MetaStoreError(f"{key} in ZooKeeper changes too fast to be created")

    def changes(self, prefix: str) -> KeyChanges:
        self._mirror.check_open()
        return KeyChanges(self._subscriptions, prefix)

    async def close(self) -> None:
        """End the session, and with it the ephemeral keys."""
        if self._closed:
            return
        self._closed = True
        self._lose_ephemeral_keys()
        for subscription in [*self._subscriptions]:
            subscription.close()
        await self._mirror.close()

    async def release(self, ephemeral: ZooKeeperEphemeralKey) -> None:
        """Delete a key unless it is lost already, because then it may belong to another broker."""
        if ephemeral.lost.is_set() or self._closed:
            return
        await self._mirror.catch_up()
        node = self._mirror.tree.nodes.get(ephemeral.key)
        if not ephemeral.lost.is_set() and node is not None:
            with contextlib.suppress(Conflict):
                await self.delete(ephemeral.key, version=node.version)

    # Writes

    async def _check(self, writes: Sequence[Write]) -> None:
        """Raise Conflict only if the newest state has one: the mirror alone may be stale."""
        await self._mirror.wait_connected()
        try:
            self._stage(writes)
        except Conflict:
            await self._mirror.catch_up()
            self._stage(writes)

    def _stage(self, writes: Sequence[Write]) -> None:
        tree = self._mirror.tree
        orphans = orphaned_keys(tree, writes)
        check_writes(lambda key: None if key in orphans else tree.entry(key), writes)

    def _plan(self, writes: Sequence[Write]) -> MultiPlan:
        plan = MultiPlan(self._mirror.tree, orphaned_keys(self._mirror.tree, writes))
        for write in writes:
            plan.add(write)
        return plan

    async def _commit_in_parts(self, writes: Sequence[Write]) -> Sequence[int]:
        """Commit a topic of very many partitions in several requests.

        The partition states come first, which nobody reads while their topic does not exist; then
        the topic and everything else in one request; last the deletions below deleted keys. Every
        request includes the checks. If one fails before the topic exists, the states are deleted;
        if even that fails, the next creation of the topic finds and replaces them.
        """
        before, together, after = split_writes(writes)
        checks = [write for write in writes if isinstance(write, Check)]
        if self._plan([writes[index] for index in together]).size > COMMIT_BYTES_MAX:
            raise MetaStoreError(f"a commit of {len(writes)} writes is too large for ZooKeeper")
        versions = dict.fromkeys(range(len(writes)), -1)
        created: Sequence[int] = []
        try:
            for part in _parts(writes, before):
                done = await self.commit([*checks, *(writes[index] for index in part)])
                versions.update(zip(part, done[len(checks) :], strict=True))
                created = [*created, *part]
            done = await self.commit([writes[index] for index in together])
            versions.update(zip(together, done, strict=True))
        except MetaStoreError:
            await self._clear_away([writes[index].key for index in created], [])
            raise
        await self._clear_away([writes[index].key for index in after], checks)
        return [versions[index] for index in range(len(writes))]

    async def _clear_away(self, keys: Sequence[str], checks: Sequence[Check]) -> None:
        """Delete keys whose parent does not exist; a failure does no harm, as nobody reads them."""
        writes = [Delete(key, ANY_VERSION) for key in keys]
        try:
            for part in _parts(writes, range(len(writes))):
                await self.commit([*checks, *(writes[index] for index in part)])
        except MetaStoreError as error:
            log.warning("Could not delete %d orphaned keys in ZooKeeper: %s", len(keys), error)

    # Ephemeral keys and changes

    def _own_key(self, key: str, value: bytes) -> ZooKeeperEphemeralKey:
        ephemeral = self._ephemeral_keys[key] = ZooKeeperEphemeralKey(
            self, key, VersionedValue(value, 0)
        )
        return ephemeral

    def _is_stray(self, key: str) -> bool:
        """True for a key of our session that we do not know: its creation was interrupted."""
        node = self._mirror.tree.nodes.get(key)
        ours = node is not None and node.owner == self._mirror.client.session_id
        return ours and key not in self._ephemeral_keys

    async def _remove_stray(self, key: str) -> None:
        with contextlib.suppress(MetaStoreError):
            await self._mirror.catch_up()
            if self._is_stray(key):
                await self.delete(key, version=ANY_VERSION)

    def _lose_ephemeral_keys(self) -> None:
        for ephemeral in self._ephemeral_keys.values():
            ephemeral.lost.set()
        self._ephemeral_keys.clear()

    def _on_change(self, change: KeyChange) -> None:
        if change.key in self._ephemeral_keys:
            node = self._mirror.tree.nodes.get(change.key)
            if node is None or node.owner != self._mirror.client.session_id:
                self._ephemeral_keys.pop(change.key).lost.set()
        for subscription in self._subscriptions:
            subscription.offer(change)


class ZooKeeperEphemeralKey:
    """A key that exists as long as our session does."""

    def __init__(self, store: ZooKeeperStore, key: str, entry: VersionedValue) -> None:
        self._store = store
        self.key = key
        self.entry = entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        await self._store.release(self)
        self.lost.set()


def _parts(writes: Sequence[Write], indexes: Sequence[int]) -> Iterator[list[int]]:
    """Groups of writes that each fit into one request, with the parents that they may create."""
    part: list[int] = []
    size = 0
    for index in indexes:
        write = writes[index]
        added = 2 * ZnodeOperation("create", write.key).size + len(getattr(write, "value", b""))
        if part and size + added > PART_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(index)
        size += added
    if part:
        yield part


def _version(plan: MultiPlan, answers: Sequence[Any], index: int) -> int:
    match plan.operations[index]:
        case ZnodeOperation("create"):
            return 0
        case ZnodeOperation("check", _, _, version):
            return version
        case ZnodeOperation("set", _, value) if value is not None:
            return int(answers[index].version)
    return -1
