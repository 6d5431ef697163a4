"""KIP-951: who asks a broker that does not lead is told at once who does, and where to find it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

MOVED = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class Hint(NamedTuple):
    """A partition's leader, as this broker knows it."""

    leader_id: int
    leader_epoch: int


class Node(NamedTuple):
    """Where the clients of one listener find a broker."""

    id: int
    host: str
    port: int
    rack: str | None


def leader_of(broker: Broker, topic: str, index: int) -> Hint | None:
    found = broker.image.topics.get(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return None
    state = found.partitions[index]
    return Hint(state.leader, state.leader_epoch)


def nodes_of(broker: Broker, leaders: set[int], listener: str) -> list[Node]:
    """The addresses of these brokers, as far as they are alive."""
    found = []
    for leader_id in sorted(leaders):
        each = broker.image.brokers.get(leader_id)
        where = each.listener(listener) if each is not None else None
        if each is not None and where is not None:
            found.append(Node(leader_id, where.host, where.port, each.rack))
    return found
