"""The leader of a partition, as metadata responses show it to a client."""

from __future__ import annotations

from collections.abc import Container, Sequence

from ottla.cluster.image import NO_LEADER, PartitionRegistration
from ottla.errors import ErrorCode


def visible_leader(
    partition: PartitionRegistration,
    offline: Sequence[int],
    reachable: Container[int],
    *,
    unreachable: ErrorCode = ErrorCode.LISTENER_NOT_FOUND,
) -> tuple[int, ErrorCode]:
    """The leader, or none and the error why. A leader whose log directory has failed does not
    count.

    `reachable` are the brokers that have the client's listener; a leader without it gives the error
    `unreachable`.
    """
    if partition.leader == NO_LEADER or partition.leader in offline:
        return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE
    if partition.leader not in reachable:
        return NO_LEADER, unreachable
    return partition.leader, ErrorCode.NONE
