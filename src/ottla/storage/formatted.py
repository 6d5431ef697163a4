"""Log directories that `kafka-storage format` has prepared: they have an id, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ottla.storage.checkpoints import META_PROPERTIES, DamagedError, read_meta_properties


def formatted_cluster_id(directories: Iterable[str]) -> str | None:
    """The cluster's id that was chosen for a broker which has never started; None if none was.

    Where partitions lie, the id is not taken: they belong to a cluster whose metadata is elsewhere,
    and a new cluster of the same id would take them for strays.
    """
    chosen = set()
    for directory in map(Path, directories):
        try:
            if any(each.is_dir() for each in directory.iterdir()):
                return None
            meta = read_meta_properties((directory / META_PROPERTIES).read_bytes())
        except (OSError, DamagedError):
            continue  # not formatted; whatever is wrong with it is said when it is opened
        if meta.cluster_id is not None:
            chosen.add(meta.cluster_id)
    return chosen.pop() if len(chosen) == 1 else None
