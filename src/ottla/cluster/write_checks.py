"""Check a commit's writes against the present entries, and compute the entries after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    VersionedValue,
    Write,
    check_key,
)

Find = Callable[[str], VersionedValue | None]


def check_writes(
    find: Find, writes: Sequence[Write]
) -> tuple[list[int], dict[str, VersionedValue | None]]:
    """The version that each write results in, and the changed entries; Conflict if one fails."""
    staged: dict[str, VersionedValue | None] = {}
    return [_check_write(find, staged, write) for write in writes], staged


def _check_write(find: Find, staged: dict[str, VersionedValue | None], write: Write) -> int:
    """Check one write against the entries as the writes before it leave them, and apply it."""
    key = write.key
    current = staged[key] if key in staged else find(key)
    if isinstance(write, Create):
        check_key(key)
        if current is not None:
            raise Conflict(key, "exists already")
        staged[key] = VersionedValue(write.value, 0)
        return 0
    if current is None:
        raise Conflict(key, "does not exist")
    if write.version not in (ANY_VERSION, current.version):
        raise Conflict(key, f"has version {current.version}, not {write.version}")
    if isinstance(write, Check):
        return current.version
    if isinstance(write, Delete):
        staged[key] = None
        return -1
    staged[key] = VersionedValue(write.value, current.version + 1)
    return current.version + 1
