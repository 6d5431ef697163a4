"""Server-side assignors (KIP-848): which member is to own which partition. Pure functions.

`uniform` spreads partitions evenly and moves as few as it can; it is Kafka's default. `range` gives
each member the same range of every topic, so that topics with as many partitions go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple, TypeAlias

from ottla.coordinator.consumer.member import NO_PARTITIONS, PartitionSet, TopicIdPartition

UNIFORM: Final = "uniform"
RANGE: Final = "range"


class Subscriber(NamedTuple):
    """A member, as an assignor sees it: ids of existing topics, and its target so far."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: PartitionSet = NO_PARTITIONS


Counts: TypeAlias = Mapping[bytes, int]  # partitions by topic id
Assignor: TypeAlias = Callable[[Sequence[Subscriber], Counts], dict[str, PartitionSet]]


def assign_uniform(members: Sequence[Subscriber], counts: Counts) -> dict[str, PartitionSet]:
    """Even and sticky. If all subscribe to the same topics, their sizes differ by one at most."""
    if not members:
        return {}
    first = members[0].topic_ids
    if all(member.topic_ids == first for member in members):
        return _assign_same(members, first, counts)
    return _assign_different(members, counts)


def _assign_same(
    members: Sequence[Subscriber], topic_ids: frozenset[bytes], counts: Counts
) -> dict[str, PartitionSet]:
    everything = [
        (topic_id, index) for topic_id in sorted(topic_ids) for index in range(counts[topic_id])
    ]
    quota, extra = divmod(len(everything), len(members))
    free = dict.fromkeys(everything)
    kept: dict[str, list[TopicIdPartition]] = {}
    for member in members:
        mine = sorted(partition for partition in member.target if partition in free)
        size = quota
        if len(mine) > quota and extra:
            size += 1
            extra -= 1
        kept[member.member_id] = mine = mine[:size]
        for partition in mine:
            del free[partition]
    rest = iter(free)
    targets: dict[str, PartitionSet] = {}
    for member in members:
        mine = kept[member.member_id]
        size = quota
        if len(mine) <= quota and extra:
            size += 1
            extra -= 1
        if len(mine) < size:
            mine += [next(rest) for _ in range(size - len(mine))]
        same = len(mine) == len(member.target) and member.target.issuperset(mine)
        targets[member.member_id] = member.target if same else frozenset(mine)
    return targets


def _assign_different(members: Sequence[Subscriber], counts: Counts) -> dict[str, PartitionSet]:
    """With different subscriptions: keep what is valid, assign the rest, then balance."""
    owned: dict[str, set[TopicIdPartition]] = {}
    taken: set[TopicIdPartition] = set()
    subscribers: dict[bytes, list[str]] = {}
    for member in members:
        for topic_id in sorted(member.topic_ids):
            subscribers.setdefault(topic_id, []).append(member.member_id)
        mine = {
            (topic_id, index)
            for topic_id, index in member.target
            if (topic_id, index) not in taken
            if topic_id in member.topic_ids and index < counts[topic_id]
        }
        taken |= mine
        owned[member.member_id] = mine
    # Topics with few subscribers first: their partitions have the least choice.
    for topic_id in sorted(subscribers, key=lambda id_: (len(subscribers[id_]), id_)):
        heap = [(len(owned[member_id]), member_id) for member_id in subscribers[topic_id]]
        heapify(heap)
        for index in range(counts[topic_id]):
            if (topic_id, index) not in taken:
                size, member_id = heap[0]
                owned[member_id].add((topic_id, index))
                heapreplace(heap, (size + 1, member_id))
    _balance(owned, subscribers)
    return {
        member.member_id: member.target
        if owned[member.member_id] == member.target
        else frozenset(owned[member.member_id])
        for member in members
    }


def _balance(owned: dict[str, set[TopicIdPartition]], subscribers: dict[bytes, list[str]]) -> None:
    """Move partitions, topic by topic, from members with more to members with fewer.

    A move makes the sum of the squares of all sizes smaller, so this comes to an end.
    """
    spare: dict[bytes, dict[str, list[TopicIdPartition]]] = {id_: {} for id_ in subscribers}
    for member_id, partitions in owned.items():
        for partition in sorted(partitions):
            spare[partition[0]].setdefault(member_id, []).append(partition)
    moved = True
    while moved:
        moved = False
        for topic_id, member_ids in subscribers.items():
            moved = _balance_topic(member_ids, spare[topic_id], owned) or moved


def _balance_topic(
    member_ids: list[str],
    spare: dict[str, list[TopicIdPartition]],
    owned: dict[str, set[TopicIdPartition]],
) -> bool:
    """`spare` has the partitions of this topic by member."""
    low = [(len(owned[member_id]), member_id) for member_id in member_ids]
    high = [(-len(owned[member_id]), member_id) for member_id, own in spare.items() if own]
    if -min(high, default=(0, ""))[0] - min(low)[0] <= 1:
        return False
    heapify(low)
    heapify(high)
    moved = False
    while high:
        size, giver = heappop(high)
        if -size != len(owned[giver]) or not spare[giver]:
            continue  # an older entry, or nothing of this topic is left
        while low[0][0] != len(owned[low[0][1]]):
            heappop(low)
        least, taker = low[0]
        if -size - least <= 1:
            return moved
        partition = spare[giver].pop()
        owned[giver].remove(partition)
        owned[taker].add(partition)
        spare.setdefault(taker, []).append(partition)
        for member_id in (giver, taker):
            heappush(low, (len(owned[member_id]), member_id))
            heappush(high, (-len(owned[member_id]), member_id))
        moved = True
    return moved


def assign_range(members: Sequence[Subscriber], counts: Counts) -> dict[str, PartitionSet]:
    """Static members come first, by their instance; so the same instance gets the same range."""
    in_order = sorted(
        members,
        key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
    )
    subscribers: dict[bytes, list[str]] = {}
    for member in in_order:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    owned: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in members}
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(counts[topic_id], len(member_ids))
        start = 0
        for number, member_id in enumerate(member_ids):
            end = start + quota + (number < extra)
            owned[member_id].extend((topic_id, index) for index in range(start, end))
            start = end
    return {
        member.member_id: member.target
        if member.target == (mine := frozenset(owned[member.member_id]))
        else mine
        for member in members
    }


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
