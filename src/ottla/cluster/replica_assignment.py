"""Replica assignment: which brokers have the replicas of a partition, and the choice for new ones.

Kafka's rule: the first replicas are placed round-robin from a random start; the others follow at a
distance that grows by one with every round, so that the partitions of a dead broker fail over to
different brokers. If racks are known, brokers are first put in an order in which racks alternate,
and a rack (or a broker) gets a second replica of a partition only when every other one has one.

    five brokers, three replicas, start 0, shift 0
      p0  0 1 2      p5  0 2 3
      p1  1 2 3      p6  1 3 4
      p2  2 3 4      p7  2 4 0
      p3  3 4 0      p8  3 0 1
      p4  4 0 1      p9  4 1 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

ReplicaLists = Sequence[Sequence[int]]
"""The replicas of several partitions, in the order of their indexes."""


class ReplicaAssignment(NamedTuple):
    """The replicas of one partition, and which of them are added or removed (KIP-455)."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()


def assign_replicas(
    racks: Mapping[int, str | None],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> list[list[int]]:
    """The replicas of each new partition, leader first. `racks` has every live broker.

    There must be as many brokers as replicas. Racks count only if every broker has one, as in
    Kafka.
    """
    assert 0 < replication_factor <= len(racks)
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(known) == len(racks) and len(set(known.values())) > 1:
        order = _alternate(known)
        assign = _place_on_racks
    else:
        order = sorted(racks)
        known = {}
        assign = _place
    assignment = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        assignment.append(assign(order, known, first, shift, replication_factor))
    return assignment


def _place(
    order: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> list[int]:
    replicas = [order[first]]
    for step in range(replication_factor - 1):
        replicas.append(order[_follow(first, shift, step, len(order))])
    return replicas


def _place_on_racks(
    order: list[int], racks: Mapping[int, str], first: int, shift: int, replication_factor: int
) -> list[int]:
    rack_count = len(set(racks.values()))
    replicas = [order[first]]
    step = 0
    while len(replicas) < replication_factor:
        # The other replicas start at least one round of racks away from the leader's neighbours.
        broker = order[_follow(first, shift * rack_count, step, len(order))]
        step += 1
        used_racks = {racks[replica] for replica in replicas}
        rack_is_fair = racks[broker] not in used_racks or len(used_racks) == rack_count
        broker_is_fair = broker not in replicas or len(set(replicas)) == len(order)
        if rack_is_fair and broker_is_fair:
            replicas.append(broker)
    return replicas


def _follow(first: int, shift: int, step: int, count: int) -> int:
    """The index of the broker `step` places after the leader's first follower; skips the leader."""
    if count == 1:
        return first
    return (first + 1 + (shift + step) % (count - 1)) % count


def _alternate(racks: Mapping[int, str]) -> list[int]:
    """Brokers in an order in which racks alternate: a1 b1 c1 a2 b2 c2 ..."""
    members: dict[str, list[int]] = {}
    for broker in sorted(racks):
        members.setdefault(racks[broker], []).append(broker)
    order: list[int] = []
    turn = 0
    while len(order) < len(racks):
        for rack in sorted(members):
            if turn < len(members[rack]):
                order.append(members[rack][turn])
        turn += 1
    return order
