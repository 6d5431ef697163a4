"""What a commit would do to the entries that are there, or whom it would conflict with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.cluster.store import (
    ANY_VERSION,
    Check,
    Conflict,
    Create,
    Delete,
    Entry,
    Write,
    check_key,
)

Find = Callable[[str], Entry | None]


def stage(find: Find, writes: Sequence[Write]) -> tuple[list[int], dict[str, Entry | None]]:
    """Each write's version, and the keys it changes as they will be; Conflict if it can't be."""
    staged: dict[str, Entry | None] = {}
    return [_stage(find, staged, write) for write in writes], staged


def _stage(find: Find, staged: dict[str, Entry | None], write: Write) -> int:
    """Check one write against what holds, with the writes before it done; note what it does."""
    key = write.key
    current = staged[key] if key in staged else find(key)
    if isinstance(write, Create):
        check_key(key)
        if current is not None:
            raise Conflict(key, "exists already")
        staged[key] = Entry(write.value, 0)
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
    staged[key] = Entry(write.value, current.version + 1)
    return current.version + 1
