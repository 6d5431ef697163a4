"""MetaStore: the contract of the store that has the cluster's metadata.

A key is a path (`/brokers/topics/orders`), a value is bytes, and every value has a version that
counts its changes from 0. There are two implementations: `embedded.py` (one process, a journal
file) and, for a cluster, ZooKeeper. Both pass the same tests,
tests/cluster/test_store_conformance.py.

What the implementations guarantee:

- `commit` applies all of its writes or none, and they survive a crash.
- An ephemeral key lasts as long as the session that created it. Any broker may delete it before
  that (because the owner is known to be dead), but nobody can put another value there.
- `changes` yields, from its call on, the last state of every key that changes below a prefix.
  Intermediate states may be skipped, so the buffer never outgrows the number of keys.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from ottla.cluster.key_changes import KeyChanges

ANY_VERSION = -1
"""Matches any version of an existing key."""


@dataclass(slots=True, frozen=True)
class VersionedValue:
    """A key's value, and how often it has changed since its creation."""

    value: bytes
    version: int


@dataclass(slots=True, frozen=True)
class KeyChange:
    """The new value of a key; None if it was deleted."""

    key: str
    entry: VersionedValue | None


@dataclass(slots=True, frozen=True)
class Create:
    """Create a key that does not exist."""

    key: str
    value: bytes


@dataclass(slots=True, frozen=True)
class Put:
    """Replace a value if its version is still this one."""

    key: str
    value: bytes
    version: int


@dataclass(slots=True, frozen=True)
class Delete:
    """Delete a key if its version is still this one."""

    key: str
    version: int


@dataclass(slots=True, frozen=True)
class Check:
    """Change nothing, but fail the whole commit unless the key has this version (fencing)."""

    key: str
    version: int


Write = Create | Put | Delete | Check


class MetaStoreError(Exception):
    """An operation on the store failed."""


class Conflict(MetaStoreError):
    """Another writer was faster: the key exists, is gone, or has another version."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(f"{key} {reason}")
        self.key = key


class EphemeralKey(Protocol):
    """A key that exists as long as our session does. `lost` is set when it is gone."""

    key: str
    entry: VersionedValue
    lost: asyncio.Event

    async def release(self) -> None: ...


class SessionState(NamedTuple):
    """The state of the session on a remote store, for metrics."""

    state: str
    disconnects: int
    expiries: int

    @property
    def connected(self) -> bool:
        return self.state == "CONNECTED"


class MetaStore(Protocol):
    """The store of the cluster's metadata."""

    async def get(self, key: str) -> VersionedValue | None: ...

    async def list(self, prefix: str) -> dict[str, VersionedValue]:
        """The key itself, if there is one, and every key below it."""

    async def create(self, key: str, value: bytes) -> int: ...

    async def put(self, key: str, value: bytes, *, version: int) -> int: ...

    async def delete(self, key: str, *, version: int) -> None: ...

    async def commit(self, writes: Sequence[Write]) -> Sequence[int]:
        """All writes or none; returns the version of each key after it (-1 if it is deleted)."""

    async def create_ephemeral(self, key: str, value: bytes) -> EphemeralKey: ...

    def changes(self, prefix: str) -> KeyChanges: ...

    async def close(self) -> None: ...


def check_key(key: str) -> None:
    """ValueError unless the key is a path as in ZooKeeper: rooted, no empty part, no `.`, `..`."""
    parts = key.split("/")
    if parts[0] != "" or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        raise ValueError(f"{key!r} is not a key: keys look like /brokers/ids/0")


def is_below(key: str, prefix: str) -> bool:
    """True if a key is the prefix itself or below it; every key is below '/'."""
    if prefix == "/":
        return True
    return key.startswith(prefix) and (len(key) == len(prefix) or key[len(prefix)] == "/")
