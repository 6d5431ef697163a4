"""Which brokers get the replicas of a new topic's partitions.

Kafka's rule: first replicas go round the brokers from a random start; the others follow at a
distance which grows by one with every round, so that the brokers which help out for a dead one
differ. With racks known, brokers are first put in an order in which racks alternate, and a rack
(or a broker) takes a second replica of a partition only when every rack (or broker) has had one.

    five brokers, three replicas, start 0, shift 0
      p0  0 1 2      p5  0 2 3
      p1  1 2 3      p6  1 3 4
      p2  2 3 4      p7  2 4 0
      p3  3 4 0      p8  3 0 1
      p4  4 0 1      p9  4 1 2
"""

from __future__ import annotations

from collections.abc import Mapping


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

    Needs as many brokers as replicas. Racks count only if every broker has one, as in Kafka.
    """
    assert 0 < replication_factor <= len(racks)
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(known) == len(racks) and len(set(known.values())) > 1:
        order = _alternate(known)
        place = _place_on_racks
    else:
        order = sorted(racks)
        known = {}
        place = _place
    assignment = []
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        assignment.append(place(order, known, first, shift, replication_factor))
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
        # The others start at least a whole round of racks away from the leader's neighbours.
        broker = order[_follow(first, shift * rack_count, step, len(order))]
        step += 1
        used_racks = {racks[replica] for replica in replicas}
        rack_is_fair = racks[broker] not in used_racks or len(used_racks) == rack_count
        broker_is_fair = broker not in replicas or len(set(replicas)) == len(order)
        if rack_is_fair and broker_is_fair:
            replicas.append(broker)
    return replicas


def _follow(first: int, shift: int, step: int, count: int) -> int:
    """The index of the broker `step` places after the leader's first follower; never the leader."""
    if count == 1:
        return first
    return (first + 1 + (shift + step) % (count - 1)) % count


def _alternate(racks: Mapping[int, str]) -> list[int]:
    """Brokers in an order in which racks take turns: a1 b1 c1 a2 b2 c2 ..."""
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
