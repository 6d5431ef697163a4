"""The MetaStore of a cluster: ZooKeeper, through kazoo.

Reading costs one `sync`, since the whole tree is mirrored here. Every write is a multi with the
versions that it relies on; where the mirror turns out to be old, it is brought up to date and the
write is planned anew.

A lost connection is an ordinary event: requests wait for the next one, and a write of which it is
not known whether it was done is looked for. A lost session ends the holds; everything else goes on
in a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ottla.cluster.changes import Changes
from ottla.cluster.staging import stage
from ottla.cluster.store import (
    ANY_VERSION,
    Change,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    Put,
    SessionState,
    StoreError,
    Write,
    check_key,
)
from ottla.cluster.zookeeper_client import Refused, Stale, Unreachable
from ottla.cluster.zookeeper_mirror import Mirror
from ottla.cluster.zookeeper_tree import (
    Operation,
    Plan,
    debris_of,
    done_versions,
    split_writes,
)

COMMIT_BYTES_MAX: Final = 900_000
"""A server takes requests of 1 MB (jute.maxbuffer); what is larger is done in parts."""
PART_BYTES_MAX: Final = 800_000
TRIES_MAX: Final = 20

log = logging.getLogger("ottla.cluster")


class ZooKeeperStore:
    """A session on an ensemble, and the next one when it is lost: `await ZooKeeperStore.open()`."""

    def __init__(self, connect: str, *, session_timeout_s: float, options: dict[str, Any]) -> None:
        self._mirror = Mirror(
            connect,
            session_timeout_s=session_timeout_s,
            options=options,
            on_change=self._on_change,
            on_lost=self._lose_holds,
        )
        self._holds: dict[str, ZooKeeperHold] = {}
        self._watchers: list[Changes] = []
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
        """Connected, with everything read. StoreError if that takes longer than it may.

        `connect` is host:port,... with an optional /chroot, `options` are kazoo's.
        """
        store = cls(connect, session_timeout_s=session_timeout_s, options=options or {})
        store._mirror.client.start()
        try:
            await store._mirror.usable(connection_timeout_s or session_timeout_s)
        except BaseException:
            await store.close()
            raise
        return store

    @property
    def session_state(self) -> SessionState:
        mirror = self._mirror
        return SessionState(mirror.state, mirror.disconnects, mirror.expiries)

    async def get(self, key: str) -> Entry | None:
        await self._mirror.catch_up()
        return self._mirror.tree.entry(key)

    async def list(self, prefix: str) -> dict[str, Entry]:
        await self._mirror.catch_up()
        return self._mirror.tree.entries(prefix)

    async def create(self, key: str, value: bytes) -> int:
        return (await self.commit([Create(key, value)]))[0]

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return (await self.commit([Put(key, value, version)]))[0]

    async def delete(self, key: str, *, version: int) -> None:
        await self.commit([Delete(key, version)])

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        """All or none; see `_commit_in_parts` for what is larger than a request may be.

        After a lost answer it is done if everything is as it would have left it. So who counts by
        versions must write values that are nobody else's, or hold a key while it does.
        """
        for write in writes:
            if isinstance(write, Create):
                check_key(write.key)
        unsure = False
        for _ in range(TRIES_MAX):
            if unsure:
                await self._mirror.catch_up()
                if (versions := done_versions(self._mirror.tree, writes)) is not None:
                    return versions
            await self._check(writes)
            plan = self._plan(writes)
            if plan.size > COMMIT_BYTES_MAX:
                return await self._commit_in_parts(writes)
            try:
                answers = await self._mirror.carry_out(plan)
            except Unreachable:
                unsure = True
            except Stale as error:
                log.debug("planned on an old state: %r", error)
                await self._mirror.catch_up()
            except Refused as error:
                raise StoreError(f"ZooKeeper refused a commit: {error!r}") from error
            else:
                return [_version(plan, answers, place) for place in plan.places]
        raise StoreError("the metadata in ZooKeeper changes too fast to keep up")

    async def hold(self, key: str, value: bytes) -> ZooKeeperHold:
        check_key(key)
        for _ in range(TRIES_MAX):
            await self._mirror.usable()
            if self._mirror.tree.entry(key) is not None:
                await self._mirror.catch_up()
            node = self._mirror.tree.nodes.get(key)
            if node is not None and not self._is_stray(key):
                raise Conflict(key, "is held already")
            if node is not None and node.value == value:
                return self._held(key, value)
            plan = Plan(self._mirror.tree)
            if node is not None:
                plan.add(Delete(key, node.version))
            plan.create(key, value, ephemeral=True)
            try:
                await self._mirror.carry_out(plan)
            except Unreachable:
                await self._mirror.catch_up()  # it may be there, as a stray one of ours
            except Stale:
                await self._mirror.catch_up()
            except Refused as error:
                raise StoreError(f"ZooKeeper refused to hold {key}: {error!r}") from error
            except asyncio.CancelledError:
                self._mirror.run(self._remove_stray(key))
                raise
            else:
                return self._held(key, value)
        raise StoreError(f"{key} in ZooKeeper changes too fast to be held")

    def changes(self, prefix: str) -> Changes:
        self._mirror.check_open()
        return Changes(self._watchers, prefix)

    async def close(self) -> None:
        """Ends the session, and so what is held."""
        if self._closed:
            return
        self._closed = True
        self._lose_holds()
        for watcher in [*self._watchers]:
            watcher.close()
        await self._mirror.close()

    async def release(self, hold: ZooKeeperHold) -> None:
        """The holder's own end; what was lost already may be somebody else's by now."""
        if hold.lost.is_set() or self._closed:
            return
        await self._mirror.catch_up()
        node = self._mirror.tree.nodes.get(hold.key)
        if not hold.lost.is_set() and node is not None:
            with contextlib.suppress(Conflict):
                await self.delete(hold.key, version=node.version)

    # Writing

    async def _check(self, writes: Sequence[Write]) -> None:
        """Conflict, if the newest state has one; the mirror's word alone is not enough for that."""
        await self._mirror.usable()
        try:
            self._stage(writes)
        except Conflict:
            await self._mirror.catch_up()
            self._stage(writes)

    def _stage(self, writes: Sequence[Write]) -> None:
        tree = self._mirror.tree
        debris = debris_of(tree, writes)
        stage(lambda key: None if key in debris else tree.entry(key), writes)

    def _plan(self, writes: Sequence[Write]) -> Plan:
        plan = Plan(self._mirror.tree, debris_of(self._mirror.tree, writes))
        for write in writes:
            plan.add(write)
        return plan

    async def _commit_in_parts(self, writes: Sequence[Write]) -> Sequence[int]:
        """A topic of very many partitions: its states first, where nobody sees them yet, then the
        topic and all else in one go; what is deleted below a deleted key goes last.

        Checks are part of every request. If it fails before the topic is there, what was made is
        removed; where even that can't be, it is found to be debris by who makes the topic next.
        """
        before, together, after = split_writes(writes)
        checks = [write for write in writes if isinstance(write, Check)]
        if self._plan([writes[each] for each in together]).size > COMMIT_BYTES_MAX:
            raise StoreError(f"a commit of {len(writes)} writes is too large for ZooKeeper")
        versions = dict.fromkeys(range(len(writes)), -1)
        made: Sequence[int] = []
        try:
            for part in _parts(writes, before):
                done = await self.commit([*checks, *(writes[each] for each in part)])
                versions.update(zip(part, done[len(checks) :], strict=True))
                made = [*made, *part]
            done = await self.commit([writes[each] for each in together])
            versions.update(zip(together, done, strict=True))
        except StoreError:
            await self._clear_away([writes[each].key for each in made], [])
            raise
        await self._clear_away([writes[each].key for each in after], checks)
        return [versions[each] for each in range(len(writes))]

    async def _clear_away(self, keys: Sequence[str], checks: Sequence[Check]) -> None:
        """What is below a key that is not there: nobody sees it, and it may as well stay."""
        writes = [Delete(key, ANY_VERSION) for key in keys]
        try:
            for part in _parts(writes, range(len(writes))):
                await self.commit([*checks, *(writes[each] for each in part)])
        except StoreError as error:
            log.warning("some of %d keys are left in ZooKeeper: %s", len(keys), error)

    # Holding and telling

    def _held(self, key: str, value: bytes) -> ZooKeeperHold:
        hold = self._holds[key] = ZooKeeperHold(self, key, Entry(value, 0))
        return hold

    def _is_stray(self, key: str) -> bool:
        """It is of our session, and nobody here knows of it: its making was broken off."""
        node = self._mirror.tree.nodes.get(key)
        ours = node is not None and node.owner == self._mirror.client.session_id
        return ours and key not in self._holds

    async def _remove_stray(self, key: str) -> None:
        with contextlib.suppress(StoreError):
            await self._mirror.catch_up()
            if self._is_stray(key):
                await self.delete(key, version=ANY_VERSION)

    def _lose_holds(self) -> None:
        for hold in self._holds.values():
            hold.lost.set()
        self._holds.clear()

    def _on_change(self, change: Change) -> None:
        if change.key in self._holds:
            node = self._mirror.tree.nodes.get(change.key)
            if node is None or node.owner != self._mirror.client.session_id:
                self._holds.pop(change.key).lost.set()
        for watcher in self._watchers:
            watcher.offer(change)


class ZooKeeperHold:
    """A key that is there as long as our session is."""

    def __init__(self, store: ZooKeeperStore, key: str, entry: Entry) -> None:
        self._store = store
        self.key = key
        self.entry = entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        await self._store.release(self)
        self.lost.set()


def _parts(writes: Sequence[Write], places: Sequence[int]) -> Iterator[list[int]]:
    """In groups that are each small enough for a request, with the paths that have to be made."""
    part: list[int] = []
    size = 0
    for place in places:
        write = writes[place]
        added = 2 * Operation("create", write.key).size + len(getattr(write, "value", b""))
        if part and size + added > PART_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(place)
        size += added
    if part:
        yield part


def _version(plan: Plan, answers: Sequence[Any], place: int) -> int:
    match plan.operations[place]:
        case Operation("create"):
            return 0
        case Operation("check", _, _, version):
            return version
        case Operation("set", _, value) if value is not None:
            return int(answers[place].version)
    return -1
