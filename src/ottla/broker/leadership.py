"""Who leads a partition, as clients are told."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cluster.image import NO_LEADER, Partition
from ottla.errors import ErrorCode


def visible_leader(partition: Partition, offline: Sequence[int]) -> tuple[int, ErrorCode]:
    """The leader, or none and why: one whose log directory has failed leads nobody."""
    if partition.leader == NO_LEADER or partition.leader in offline:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    return partition.leader, ErrorCode.NONE
