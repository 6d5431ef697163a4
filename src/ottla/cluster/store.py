"""MetaStore: the narrow door to wherever the cluster's metadata is kept.

A key is a path (`/brokers/topics/orders`), a value is bytes, and every value has a version which
counts its changes from 0. Two implementations stand behind this: `embedded.py` (one process, a
journal file) and, for a cluster, ZooKeeper; whatever is true of one is true of the other, which
tests/cluster/test_store_conformance.py keeps.

What the implementations promise:

- `commit` does all of its writes or none, and what it did survives a crash.
- A `hold` lasts as long as the session that made it: it is gone when the process is. Anybody may
  delete it before that (a broker that is known to be dead); nobody puts another value there.
- `changes` tells, from its call on, the last state of every key that changed below a prefix. States
  in between may be left out, so what waits to be told never outgrows the number of keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ottla.cluster.changes import Changes

ANY_VERSION = -1
"""In place of a version: whatever it is now, as long as the key is there."""


@dataclass(slots=True, frozen=True)
class Entry:
    """A key's value, and how often it has been changed since it was created."""

    value: bytes
    version: int


@dataclass(slots=True, frozen=True)
class Change:
    """What has become of a key; None if it is gone."""

    key: str
    entry: Entry | None


@dataclass(slots=True, frozen=True)
class Create:
    """Put a key where none is."""

    key: str
    value: bytes


@dataclass(slots=True, frozen=True)
class Put:
    """Replace a value whose version is still this one."""

    key: str
    value: bytes
    version: int


@dataclass(slots=True, frozen=True)
class Delete:
    """Remove a key whose version is still this one."""

    key: str
    version: int


@dataclass(slots=True, frozen=True)
class Check:
    """Change nothing, but let the others stand or fall with this version (fencing)."""

    key: str
    version: int


Write = Create | Put | Delete | Check


class StoreError(Exception):
    """The store could not do what it was asked to."""


class Conflict(StoreError):
    """Somebody else was faster: the key is there, is gone, or has another version."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} {reason}")
        self.key = key


class Hold(Protocol):
    """A key that is ours while our session lives. `lost` is set when it no longer is."""

    key: str
    entry: Entry
    lost: asyncio.Event

    async def release(self) -> None: ...


class SessionState(NamedTuple):
    """How a store that is elsewhere is reached, for those who watch."""

    state: str
    disconnects: int
    expiries: int

    @property
    def connected(self) -> bool:
        return self.state == "CONNECTED"


class MetaStore(Protocol):
    """Metadata, wherever it is kept."""

    async def get(self, key: str) -> Entry | None: ...

    async def list(self, prefix: str) -> dict[str, Entry]:
        """The key itself, if there is one, and every key below it."""

    async def create(self, key: str, value: bytes) -> int: ...

    async def put(self, key: str, value: bytes, *, version: int) -> int: ...

    async def delete(self, key: str, *, version: int) -> None: ...

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        """All of them or none; returns the version that each key has now (-1 where it is gone)."""

    async def hold(self, key: str, value: bytes) -> Hold: ...

    def changes(self, prefix: str) -> Changes: ...

    async def close(self) -> None: ...


def check_key(key: str) -> None:
    """Keys are paths as ZooKeeper has them: rooted, no empty part, no `.` or `..`."""
    parts = key.split("/")
    if parts[0] != "" or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError(f"{key!r} is not a key: keys look like /brokers/ids/0")


def is_below(key: str, prefix: str) -> bool:
    """Whether a key is the prefix itself or lies under it; '/' is above everything."""
    if prefix == "/":
        return True
    return key.startswith(prefix) and (len(key) == len(prefix) or key[len(prefix)] == "/")
