"""KIP-951: an error of a broker that does not lead names the leader, and where to find it."""

from __future__ import annotations

from typing import NamedTuple

from ottla.cluster.image import MetadataImage
from ottla.errors import ErrorCode

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class LeaderHint(NamedTuple):
    """A partition's leader, as this broker knows it."""

    leader_id: int
    leader_epoch: int


class LeaderEndpoint(NamedTuple):
    """A broker's address for the clients of one listener."""

    id: int
    host: str
    port: int
    rack: str | None


def leader_hint(image: MetadataImage, topic: str, index: int) -> LeaderHint | None:
    found = image.topics.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    state = found.partitions[index]
    return LeaderHint(state.leader, state.leader_epoch)


def leader_endpoints(
    image: MetadataImage, leaders: set[int], listener: str
) -> list[LeaderEndpoint]:
    """The addresses of these brokers; those that are dead are left out."""
    found = []
    for leader_id in sorted(leaders):
        broker = image.brokers.get(leader_id)
        where = broker.listener(listener) if broker is not None else None
        if broker is not None and where is not None:
            found.append(LeaderEndpoint(leader_id, where.host, where.port, broker.rack))
    return found
