"""A copy of the tree in ZooKeeper, kept up to date by one recursive watch.

An event only says that a node changed; what it is now is read, many nodes in one request. After
each connection that is made the watch is set again and everything is read again, and whatever is
different is told: what happened in between is not known otherwise.

Answers come in ZooKeeper's order, so that nothing read here is older than what is known already.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ottla.cluster.store import Change, StoreError
from ottla.cluster.zookeeper_client import CONNECTED, LOST, Client, Refused, Unreachable
from ottla.cluster.zookeeper_tree import Node, Operation, Plan, Tree

TRIES_MAX: Final = 20
RESTART_S: Final = 0.5
OWN: Final = "/zookeeper"
"""ZooKeeper's own nodes, which a store without a chroot would find beside ours."""

log = logging.getLogger("ottla.cluster")


class Mirror:
    """`tree` is what we know. `on_change` is told of keys, `on_lost` that a session has ended."""

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_s: float,
        options: dict[str, Any],
        on_change: Callable[[Change], None],
        on_lost: Callable[[], None],
    ) -> None:
        hosts, slash, chroot = connect.partition("/")
        self.tree = Tree()
        self.client = Client(
            hosts,
            session_timeout_s=session_timeout_s,
            on_state=self._on_state,
            on_event=self._on_event,
            options=options,
        )
        self._connect = connect
        self._root = (slash + chroot).rstrip("/")
        self._patience_s = 2 * session_timeout_s
        self._on_change = on_change
        self._on_lost = on_lost
        self._dirty: set[str] = set()
        self._reading = asyncio.Lock()
        self._ready = asyncio.Event()  # connected, watched, and read
        self._connection = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: StoreError | None = None
        self._closed = False
        self.state = LOST
        self.disconnects = 0
        self.expiries = 0

    async def close(self) -> None:
        self._closed = True
        self._ready.set()  # whoever waits is told
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()

    def check_open(self) -> None:
        if self._closed:
            raise StoreError("the metadata store is closed")
        if self._failure is not None:
            raise self._failure

    async def usable(self, timeout_s: float | None = None) -> None:
        """Wait for a connection; StoreError if there is none for too long."""
        self.check_open()
        if not self.client.connected:
            self._ready.clear()  # the state that says so is on its way to us
        if not self._ready.is_set():
            try:
                async with asyncio.timeout(timeout_s or self._patience_s):
                    await self._ready.wait()
            except TimeoutError:
                raise StoreError(f"ZooKeeper at {self._connect} is not reachable") from None
        self.check_open()

    async def catch_up(self) -> None:
        """On return the copy is as new as the ensemble was when this was called."""
        for _ in range(TRIES_MAX):
            await self.usable()
            try:
                await self.client.sync(self._root or "/")
            except Unreachable:
                continue
            except Refused as error:
                raise StoreError(f"ZooKeeper at {self._connect}: {error!r}") from error
            await self._read_dirty()
            if self._ready.is_set():
                return
        raise StoreError(f"the connection to ZooKeeper at {self._connect} does not last")

    async def carry_out(self, plan: Plan) -> list[Any]:
        """All of a plan or nothing: the answers, or Unreachable or Refused.

        What was written is known and told before the one who wrote it goes on.
        """
        operations = [
            Operation(each.kind, self._root + each.key, each.value, each.version, each.ephemeral)
            for each in plan.operations
        ]
        answers = await self.client.multi(operations)
        for operation, answer in zip(plan.operations, answers, strict=True):
            match operation:
                case Operation("create", key, value, _, ephemeral):
                    self._learn(key, Node(value, 0, self.client.session_id if ephemeral else 0))
                case Operation("set", key, value):
                    self._learn(key, Node(value, answer.version))
                case Operation("delete", key):
                    self._learn(key, None)
        return answers

    # What ZooKeeper says

    def _on_state(self, state: str) -> None:
        if self._closed:
            return
        self._ready.clear()
        self._connection += 1
        self._note(state)
        if state == CONNECTED:
            self.run(self._resume(self._connection))
        elif self.client.refused:
            self._failure = StoreError(f"ZooKeeper at {self._connect} refused our login")
            log.error("%s", self._failure)
            self._ready.set()
            self._on_lost()
        elif state == LOST:
            log.warning("the ZooKeeper session is lost; a new one is begun")
            self._on_lost()
            if self.client.ended:
                self.run(self._start_again())
        else:
            log.warning("the connection to ZooKeeper is lost; %s is tried again", self._connect)

    def _note(self, state: str) -> None:
        """For those who watch."""
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

    async def _start_again(self) -> None:
        """kazoo's thread has ended, of an error of its own: without it there is no session."""
        log.error("the connection to ZooKeeper ended by itself, and is begun anew")
        await asyncio.sleep(RESTART_S)
        await asyncio.to_thread(self.client.start)

    async def _resume(self, connection: int) -> None:
        """After a connection was made: watch, read everything, tell what is different."""
        try:
            async with self._reading:
                if self._root:
                    await self.client.make_path(self._root)
                await self.client.watch(self._root or "/")
                await self.client.sync(self._root or "/")
                await self._read_all()
        except Unreachable:
            return  # the next connection begins anew
        except Refused as error:
            self._failure = StoreError(f"ZooKeeper at {self._connect} can't be used: {error!r}")
            log.error("%s", self._failure)
        if connection == self._connection:
            self._ready.set()
            await self._read_dirty()

    async def _read_all(self) -> None:
        found: dict[str, Node] = {}
        folders = [""]
        while folders:
            names = await self.client.children([self._root + each or "/" for each in folders])
            keys = [
                f"{folder}/{name}"
                for folder, children in zip(folders, names, strict=True)
                for name in children or ()
                if self._root or name != OWN[1:] or folder
            ]
            nodes = await self.client.read([self._root + key for key in keys])
            found |= {key: node for key, node in zip(keys, nodes, strict=True) if node is not None}
            folders = [key for key in keys if key in found and not found[key].owner]
        for key in [key for key in self.tree.nodes if key not in found]:
            self._learn(key, None)
        for key, node in found.items():
            self._learn(key, node)

    async def _read_dirty(self) -> None:
        """Until nothing is left of which we were told that it changed.

        Whoever asks for something reads, too, and may be cancelled while it does: then somebody
        else has to, because nobody is told twice.
        """
        with contextlib.suppress(*Unreachable):
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
                        self._learn(key, node)

    def _learn(self, key: str, node: Node | None) -> None:
        """The newest state of a node; told on if it is a key's, and another (or another's)."""
        before, old = self.tree.entry(key), self.tree.nodes.get(key)
        gone = []
        if node is None:
            gone = self.tree.remove(key)
        else:
            self.tree.put(key, node)
        after = self.tree.entry(key)
        if before != after or (old and node and old.owner != node.owner):
            self._on_change(Change(key, after))
        for each in gone[1:]:
            self._on_change(Change(each, None))
