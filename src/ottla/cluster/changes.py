"""What has changed and was not told yet: at most one change for each key."""

from __future__ import annotations

import asyncio

from ottla.cluster.store import Change, is_below


class Changes:
    """Filled by a store's `offer`, emptied by who iterates; it takes itself off when closed."""

    def __init__(self, watchers: list[Changes], prefix: str) -> None:
        self._watchers = watchers
        self._prefix = prefix
        self._pending: dict[str, Change] = {}
        self._wake = asyncio.Event()
        self._closed = False
        watchers.append(self)

    def offer(self, change: Change) -> None:
        if is_below(change.key, self._prefix):
            self._pending.pop(change.key, None)
            self._pending[change.key] = change
            self._wake.set()

    def take(self) -> list[Change]:
        """All that waits, at once: a commit of many keys makes one image, not as many."""
        taken = list(self._pending.values())
        self._pending.clear()
        return taken

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
