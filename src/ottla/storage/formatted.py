"""Log directories that `kafka-storage format` has prepared, and no broker has opened yet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ottla.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOCK,
    META_PROPERTIES,
    RECOVERY_POINTS,
    START_OFFSETS,
    DamagedError,
    read_meta_properties,
)

LEFT_BY_A_BROKER: Final = frozenset(
    {LOCK, CLEAN_SHUTDOWN, RECOVERY_POINTS, START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS}
)


def formatted_cluster_id(directories: Iterable[str]) -> str | None:
    """The cluster id chosen for a broker that has never started; None if there is none.

    A directory that a broker has opened does not count, with partitions or without: its cluster's
    metadata is elsewhere. Then the new cluster gets another id, and the broker does not start, like
    Kafka (InconsistentClusterIdException): its zookeeper.connect may be wrong.
    """
    chosen = set()
    for directory in map(Path, directories):
        try:
            if any(path.is_dir() or path.name in LEFT_BY_A_BROKER for path in directory.iterdir()):
                return None
            meta = read_meta_properties((directory / META_PROPERTIES).read_bytes())
        except (OSError, DamagedError):
            continue  # not formatted; opening it reports what is wrong
        if meta.cluster_id is not None:
            chosen.add(meta.cluster_id)
    return chosen.pop() if len(chosen) == 1 else None
