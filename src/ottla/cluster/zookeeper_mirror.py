"""A copy of the tree in ZooKeeper, kept up to date by one recursive watch.

An event only says that a znode changed, so its value is read, many znodes in one request. After
every new connection the watch is set and the whole tree is read again, because events may have been
missed; whatever differs is published as a change.

Answers arrive in ZooKeeper's order, so a value read here is never older than the known one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.cluster.store import KeyChange, MetaStoreError
from ottla.cluster.znode_tree import MultiPlan, Znode, ZnodeOperation, ZnodeTree
from ottla.cluster.zookeeper_client import (
    CONNECTED,
    LOST,
    UnknownOutcomeErrors,
    ZooKeeperClient,
    ZooKeeperError,
)

TRIES_MAX: Final = 20
RESTART_S: Final = 0.5
ZOOKEEPER_NODES: Final = "/zookeeper"
"""ZooKeeper's own znodes, which a store without a chroot finds beside ours."""

log = logging.getLogger("ottla.cluster")


class ZooKeeperMirror:
    """`tree` is the copy. `on_change` is called for changed keys, `on_lost` for a lost session."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_s: float,
        options: dict[str, Any],
        on_change: Callable[[KeyChange], None],
        on_lost: Callable[[], None],
    ) -> None:
        hosts, slash, chroot = connect.partition("/")
        self.tree = ZnodeTree()
        self.client = ZooKeeperClient(
            hosts,
            session_timeout_s=session_timeout_s,
            on_state=self._on_state,
            on_event=self._on_event,
            options=options,
        )
        self._connect = connect
        self._root = (slash + chroot).rstrip("/")
        self._connect_timeout_s = 2 * session_timeout_s
        self._on_change = on_change
        self._on_lost = on_lost
        self._dirty: set[str] = set()
        self._reading = asyncio.Lock()
        self._ready = asyncio.Event()  # connected, watched, and read
        self._connection = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: MetaStoreError | None = None
        self._closed = False
        self.state = LOST
        self.disconnects = 0
        self.expiries = 0

    async def close(self) -> None:
        self._closed = True
        self._ready.set()  # waiting tasks find the mirror closed
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    def check_open(self) -> None:
        if self._closed:
            raise MetaStoreError("the metadata store is closed")
        if self._failure is not None:
            raise self._failure

    async def wait_connected(self, timeout_s: float | None = None) -> None:
        """Wait for a connection; MetaStoreError after the timeout."""
        self.check_open()
        if not self.client.connected:
            self._ready.clear()  # kazoo's state change has not reached the loop yet
        if not self._ready.is_set():
            try:
                async with asyncio.timeout(timeout_s or self._connect_timeout_s):
                    await self._ready.wait()
            except TimeoutError:
                raise MetaStoreError(f"ZooKeeper at {self._connect} is not reachable") from None
        self.check_open()

    async def catch_up(self) -> None:
        """On return the copy is at least as new as the ensemble was at the call."""
        for _ in range(TRIES_MAX):
            await self.wait_connected()
            try:
                await self.client.sync(self._root or "/")
            except UnknownOutcomeErrors:
                continue
            except ZooKeeperError as error:
                raise MetaStoreError(f"ZooKeeper at {self._connect}: {error!r}") from error
            await self._read_dirty()
            if self._ready.is_set():
                return
        raise MetaStoreError(f"the connection to ZooKeeper at {self._connect} keeps failing")

    async def execute(self, plan: MultiPlan) -> list[Any]:
        """Execute all of a plan or nothing; KazooException if that fails.

        The writes are in the copy and published as changes before this returns.
        """
        operations = [
            ZnodeOperation(
                operation.kind,
                self._root + operation.key,
                operation.value,
                operation.version,
                operation.ephemeral,
            )
            for operation in plan.operations
        ]
        answers = await self.client.multi(operations)
        for operation, answer in zip(plan.operations, answers, strict=True):
            match operation:
                case ZnodeOperation("create", key, value, _, ephemeral):
                    self._apply(key, Znode(value, 0, self.client.session_id if ephemeral else 0))
                case ZnodeOperation("set", key, value):
                    self._apply(key, Znode(value, answer.version))
                case ZnodeOperation("delete", key):
                    self._apply(key, None)
        return answers

    # Events of ZooKeeper

    def _on_state(self, state: str) -> None:
        if self._closed:
            return
        self._ready.clear()
        self._connection += 1
        self._count_transition(state)
        if state == CONNECTED:
            self.run(self._resume(self._connection))
        elif self.client.auth_failed:
            self._failure = MetaStoreError(f"ZooKeeper at {self._connect} rejected our credentials")
            log.error("%s", self._failure)
            self._ready.set()
            self._on_lost()
        elif state == LOST:
            log.warning("ZooKeeper session expired; starting a new session")
            self._on_lost()
            if self.client.stopped:
                self.run(self._restart_client())
        else:
            log.warning("Lost the connection to ZooKeeper; reconnecting to %s", self._connect)

    def _count_transition(self, state: str) -> None:
        """Count the transitions for metrics."""
        self.disconnects += self.state == CONNECTED and state != CONNECTED
        self.expiries += state == LOST
        self.state = state

    def _on_event(self, path: str) -> None:
        if not path.startswith(self._root + "/"):
            return
        self._dirty.add(path[len(self._root) :])
        if self._ready.is_set() and not self._reading.locked():
            self.run(self._read_dirty())

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="zookeeper-mirror")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _restart_client(self) -> None:
        """Restart kazoo, whose thread ended because of an error inside it."""
        log.error("kazoo's connection thread died; starting it again")
        await asyncio.sleep(RESTART_S)
        await asyncio.to_thread(self.client.start)

    async def _resume(self, connection: int) -> None:
        """After a connection is made: set the watch, read everything, publish what differs."""
        try:
            async with self._reading:
                if self._root:
                    await self.client.make_path(self._root)
                await self.client.watch(self._root or "/")
                await self.client.sync(self._root or "/")
                await self._read_all()
        except UnknownOutcomeErrors:
            return  # the next connection does all of this again
        except ZooKeeperError as error:
            self._failure = MetaStoreError(f"ZooKeeper at {self._connect} can't be used: {error!r}")
            log.error("%s", self._failure)
        if connection == self._connection:
            self._ready.set()
            await self._read_dirty()

    async def _read_all(self) -> None:
        found: dict[str, Znode] = {}
        folders = [""]
        while folders:
            names = await self.client.children([self._root + folder or "/" for folder in folders])
            keys = [
                f"{folder}/{name}"
                for folder, children in zip(folders, names, strict=True)
                for name in children or ()
                if self._root or name != ZOOKEEPER_NODES[1:] or folder
            ]
            nodes = await self.client.read([self._root + key for key in keys])
            found |= {key: node for key, node in zip(keys, nodes, strict=True) if node is not None}
            folders = [key for key in keys if key in found and not found[key].owner]
        for key in [key for key in self.tree.nodes if key not in found]:
            self._apply(key, None)
        for key, node in found.items():
            self._apply(key, node)

    async def _read_dirty(self) -> None:
        """Read all znodes that events have named.

        A request that needs the newest state reads, too, and may be cancelled while it does. Then a
        background task reads instead, because an event is not sent twice.
        """
        with contextlib.suppress(*UnknownOutcomeErrors):
            async with self._reading:
                while self._dirty and self._ready.is_set():
                    keys = list(self._dirty)
                    self._dirty.clear()
                    try:
                        nodes = await self.client.read([self._root + key for key in keys])
                    except asyncio.CancelledError:
                        self._dirty.update(keys)
                        if not self._closed:
                            self.run(self._read_dirty())
                        raise
                    for key, node in zip(keys, nodes, strict=True):
                        self._apply(key, node)

    def _apply(self, key: str, node: Znode | None) -> None:
        """Apply the newest state of a znode; publish it if the key's value or owner changed."""
        before, old = self.tree.entry(key), self.tree.nodes.get(key)
        gone = []
        if node is None:
            gone = self.tree.remove(key)
        else:
            self.tree.put(key, node)
        after = self.tree.entry(key)
        if before != after or (old and node and old.owner != node.owner):
            self._on_change(KeyChange(key, after))
        for child in gone[1:]:
            self._on_change(KeyChange(child, None))
