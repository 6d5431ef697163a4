"""Replication throttles (KIP-73): set when partitions begin to move, removed when they have
arrived."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.admin import Admin
from ottla.client.configs import ResourceType
from ottla.client.reassignments import Reassignment
from ottla.client.record import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class Move(NamedTuple):
    """The brokers that a partition moves from, and those it moves to."""

    sources: frozenset[int]
    destinations: frozenset[int]


Moves = dict[TopicPartition, Move]


def moves_of(
    ongoing: Mapping[TopicPartition, Reassignment],
    proposed: Mapping[TopicPartition, Sequence[int]],
    current: Mapping[TopicPartition, Sequence[int]],
) -> Moves:
    """Ongoing and planned reassignments."""
    moves = {
        partition: Move(
            frozenset(reassignment.replicas) - set(reassignment.adding),
            frozenset(reassignment.adding),
        )
        for partition, reassignment in ongoing.items()
    }
    for partition, replicas in proposed.items():
        sources = moves[partition].sources if partition in moves else frozenset(current[partition])
        moves[partition] = Move(sources, frozenset(replicas) - sources)
    return moves


def replicas_of(moves: Moves, side: str) -> dict[str, str]:
    """For each topic `partition:broker` of the sources or destinations."""
    found: dict[str, set[str]] = {}
    for partition, move in moves.items():
        parts = found.setdefault(partition.topic, set())
        parts |= {f"{partition.partition}:{broker}" for broker in getattr(move, side)}
    return {topic: ",".join(sorted(parts)) for topic, parts in found.items()}


def set_throttle(admin: Admin, moves: Moves, bytes_per_s: int) -> None:
    leaders, followers = replicas_of(moves, "sources"), replicas_of(moves, "destinations")
    for topic, named in leaders.items():
        admin.configs.alter(
            ResourceType.TOPIC,
            topic,
            set={LEADER_REPLICAS: named, FOLLOWER_REPLICAS: followers[topic]},
        )
    brokers = {broker for move in moves.values() for broker in move.sources | move.destinations}
    live = {node.id for node in admin.cluster().nodes}
    rate = str(bytes_per_s)
    for broker in sorted(brokers & live):
        rates = {LEADER_RATE: rate, FOLLOWER_RATE: rate}
        admin.configs.alter(ResourceType.BROKER, str(broker), set=rates)
    print(f"The inter-broker throttle limit was set to {bytes_per_s} B/s")


def clear_throttles(admin: Admin, topics: Collection[str], brokers: Iterable[int]) -> None:
    """An unreachable broker keeps its throttle, which is one of its configs."""
    live = {node.id for node in admin.cluster().nodes}
    every = sorted(live.union(brokers))
    print(f"Clearing broker-level throttles on broker{_s(every)} {','.join(map(str, every))}")
    for broker in sorted(live):
        admin.configs.alter(ResourceType.BROKER, str(broker), delete=[LEADER_RATE, FOLLOWER_RATE])
    print(f"Clearing topic-level throttles on topic{_s(topics)} {','.join(sorted(topics))}")
    for topic in sorted(topics):
        names = [LEADER_REPLICAS, FOLLOWER_REPLICAS]
        admin.configs.alter(ResourceType.TOPIC, topic, delete=names)


def _s(things: Collection[object]) -> str:
    return "" if len(things) == 1 else "s"
