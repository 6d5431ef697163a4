"""A broker's way to the store: a session of the shared one, over links that can be cut.

Requests, responses and changes keep their order, as ZooKeeper guarantees for a session. A patient
session (None) waits until the link is back, as the real one does; in another one a call whose
response is lost raises MetaStoreError, and may or may not have been executed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from sim_network import STORE, Channel, Links

from ottla.cluster.embedded import EmbeddedEphemeralKey, EmbeddedSession, EmbeddedStore
from ottla.cluster.key_changes import KeyChanges
from ottla.cluster.store import KeyChange, MetaStoreError, VersionedValue, Write, is_below


def at_once(work: Any) -> Any:
    """The result of a coroutine that never waits, like those of the embedded store."""
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
        self._mirror: dict[str, VersionedValue] = dict(at_once(self.session.list("/")))
        self._subscriptions: list[KeyChanges] = []
        links.spawn(self._pump(self.session.changes("/")))

    async def _ask(self, work: Callable[[], Any]) -> Any:
        future = self._links.loop.create_future()

        def carry_out() -> None:
            try:
                outcome, error = at_once(work()), None
            except MetaStoreError as refused:
                outcome, error = None, refused
            self._back.send(lambda: settle(outcome, error), kept=self._patience_s is None)

        def settle(outcome: Any, error: MetaStoreError | None) -> None:
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
            raise MetaStoreError("the connection was lost") from None

    async def get(self, key: str) -> VersionedValue | None:
        await self._catch_up()
        return self._mirror.get(key)

    async def list(self, prefix: str) -> dict[str, VersionedValue]:
        await self._catch_up()
        return {key: entry for key, entry in self._mirror.items() if is_below(key, prefix)}

    async def _catch_up(self) -> None:
        """Reads like the real one: from its mirror, once that has all earlier changes."""
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

    async def create_ephemeral(self, key: str, value: bytes) -> SimHold:
        """Recognises a key of its own whose creation was not acknowledged."""
        near = await self._ask(lambda: self._hold(key, value))
        self._unsure.discard(key)
        hold = SimHold(self, near)
        self._links.spawn(self._tell_loss(near, hold))
        return hold

    async def _hold(self, key: str, value: bytes) -> EmbeddedEphemeralKey:
        for hold in self.session._ephemeral_keys:
            if hold.key == key and not hold.lost.is_set() and key in self._unsure:
                return hold
        self._unsure.add(key)
        return await self.session.create_ephemeral(key, value)

    async def _tell_loss(self, near: EmbeddedEphemeralKey, hold: SimHold) -> None:
        await near.lost.wait()
        self._back.send(hold.lost.set, kept=True)

    def changes(self, prefix: str) -> KeyChanges:
        """The changes, as they arrive."""
        far = KeyChanges([], prefix)
        self._subscriptions.append(far)
        return far

    async def _pump(self, near: KeyChanges) -> None:
        async for change in near:
            for arriving in (change, *near.take()):
                self._back.send(lambda arriving=arriving: self._arrived(arriving), kept=True)

    def _arrived(self, change: KeyChange) -> None:
        if change.entry is None:
            self._mirror.pop(change.key, None)
        else:
            self._mirror[change.key] = change.entry
        for far in self._subscriptions:
            far.offer(change)

    async def let_go(self, near: EmbeddedEphemeralKey) -> None:
        await self._ask(near.release)

    async def close(self) -> None:
        await self.session.close()


class SimHold:
    """A held key; its owner learns of its loss when the message arrives."""

    def __init__(self, store: SimStore, near: EmbeddedEphemeralKey) -> None:
        self._store = store
        self._near = near
        self.key = near.key
        self.entry = near.entry
        self.lost = asyncio.Event()

    async def release(self) -> None:
        await self._store.let_go(self._near)
