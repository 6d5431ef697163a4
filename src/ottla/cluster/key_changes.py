"""A subscription to the store's changes. It buffers at most one change per key."""

from __future__ import annotations

import asyncio

from ottla.cluster.store import KeyChange, is_below


class KeyChanges:
    """Filled by the store through `offer`, emptied by iteration; `close` unsubscribes."""

    def __init__(self, subscriptions: list[KeyChanges], prefix: str) -> None:
        self._subscriptions = subscriptions
        self._prefix = prefix
        self._pending: dict[str, KeyChange] = {}
        self._wake = asyncio.Event()
        self._closed = False
        subscriptions.append(self)

    def offer(self, change: KeyChange) -> None:
        if is_below(change.key, self._prefix):
            self._pending.pop(change.key, None)
            self._pending[change.key] = change
            self._wake.set()

    def take(self) -> list[KeyChange]:
        """Everything that is buffered, so that a commit of many keys makes a single image."""
        taken = list(self._pending.values())
        self._pending.clear()
        return taken

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        if self in self._subscriptions:
            self._subscriptions.remove(self)

    def __aiter__(self) -> KeyChanges:
        return self

    async def __anext__(self) -> KeyChange:
        while not self._pending:
            if self._closed:
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()
        key = next(iter(self._pending))
        return self._pending.pop(key)

    async def aclose(self) -> None:
        self.close()
