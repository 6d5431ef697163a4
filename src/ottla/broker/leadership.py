"""Who leads a partition, as clients are told."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ottla.cluster.image import NO_LEADER, Partition
from ottla.errors import ErrorCode


def visible_leader(
    partition: Partition,
    offline: Sequence[int],
    reachable: Container[int],
    *,
    unreachable: ErrorCode = ErrorCode.LISTENER_NOT_FOUND,
) -> tuple[int, ErrorCode]:
    """The leader, or none and why: one whose log directory has failed leads nobody.

    `reachable` are the brokers that have the client's listener; for a leader without it the error
    is `unreachable`.
    """
    if partition.leader == NO_LEADER or partition.leader in offline:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if partition.leader not in reachable:
        return NO_LEADER, unreachable
    return partition.leader, ErrorCode.NONE
