"""A broker's way to the store: a session of the shared one, over links that can be cut.

What goes there and what comes from there keeps its order, as ZooKeeper promises for a session:
answers and changes alike. A patient one (None) waits until the link is back, as the real one does;
in another one a call whose answer is lost raises StoreError, and whether it was carried out is not
known: both happen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sim_network import STORE, Channel, Links

from ottla.cluster.changes import Changes
from ottla.cluster.embedded import EmbeddedHold, EmbeddedSession, EmbeddedStore
from ottla.cluster.store import Change, Entry, StoreError, Write, is_below


def at_once(work: Any) -> Any:
    """The result of a coroutine that waits for nobody, as those of the embedded store are."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


class SimStore:
    """A MetaStore."""

    def __init__(
        self, store: EmbeddedStore, links: Links, name: str, patience_s: float | None
    ) -> None:
        self.session: EmbeddedSession = store.session()
        self._links = links
        self._patience_s = patience_s
        self._there = Channel(links, name, STORE)
        self._back = Channel(links, STORE, name)
        self._unsure: set[str] = set()
        self._mirror: dict[str, Entry] = dict(at_once(self.session.list("/")))
        self._told: list[Changes] = []
        links.spawn(self._pump(self.session.changes("/")))

    async def _ask(self, work: Callable[[], Any]) -> Any:
        future = self._links.loop.create_future()

        def carry_out() -> None:
            try:
                outcome, error = at_once(work()), None
            except StoreError as refused:
                outcome, error = None, refused
            self._back.send(lambda: settle(outcome, error), kept=self._patience_s is None)

        def settle(outcome: Any, error: StoreError | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(outcome)

        self._there.send(carry_out, kept=self._patience_s is None)
        try:
            return await asyncio.wait_for(future, self._patience_s)
        except TimeoutError:
            raise StoreError("the connection was lost") from None

    async def get(self, key: str) -> Entry | None:
        await self._catch_up()
        return self._mirror.get(key)

    async def list(self, prefix: str) -> dict[str, Entry]:
        await self._catch_up()
        return {key: entry for key, entry in self._mirror.items() if is_below(key, prefix)}

    async def _catch_up(self) -> None:
        """As the real one reads: from its mirror, once all before the question is in it."""
        await self._ask(lambda: self.session.get("/nothing"))
        await asyncio.sleep(0)

    async def create(self, key: str, value: bytes) -> int:
        return await self._ask(lambda: self.session.create(key, value))

    async def put(self, key: str, value: bytes, *, version: int) -> int:
        return await self._ask(lambda: self.session.put(key, value, version=version))

    async def delete(self, key: str, *, version: int) -> None:
        await self._ask(lambda: self.session.delete(key, version=version))

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        return await self._ask(lambda: self.session.commit(writes))

    async def hold(self, key: str, value: bytes) -> SimHold:
        """One that was made, and of which we were not told, is found to be ours."""
        near = await self._ask(lambda: self._hold(key, value))
        self._unsure.discard(key)
        hold = SimHold(self, near)
        self._links.spawn(self._tell_loss(near, hold))
        return hold

    async def _hold(self, key: str, value: bytes) -> EmbeddedHold:
        for hold in self.session._holds:
            if hold.key == key and not hold.lost.is_set() and key in self._unsure:
                return hold
        self._unsure.add(key)
        return await self.session.hold(key, value)

    async def _tell_loss(self, near: EmbeddedHold, hold: SimHold) -> None:
        await near.lost.wait()
        self._back.send(hold.lost.set, kept=True)

    def changes(self, prefix: str) -> Changes:
        """What has changed, as it arrives."""
        far = Changes([], prefix)
        self._told.append(far)
        return far

    async def _pump(self, near: Changes) -> None:
        async for change in near:
            for each in (change, *near.take()):
                self._back.send(lambda each=each: self._arrived(each), kept=True)

    def _arrived(self, change: Change) -> None:
        if change.entry is None:
            self._mirror.pop(change.key, None)
        else:
            self._mirror[change.key] = change.entry
        for far in self._told:
            far.offer(change)

    async def let_go(self, near: EmbeddedHold) -> None:
        await self._ask(near.release)

    async def close(self) -> None:
        await self.session.close()


class SimHold:
    """A hold, of whose loss its owner hears when the store's word reaches it."""

    def __init__(self, store: SimStore, near: EmbeddedHold) -> None:
        self._store = store
        self._near = near
        self.key = near.key
        self.entry = near.entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        await self._store.let_go(self._near)
