"""Server-side assignors (KIP-848): who is to own which partition. Pure functions.

`uniform` spreads partitions evenly and moves as few as it can; it is Kafka's default. `range` gives
each member the same range of every topic, so that topics with as many partitions go together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple, TypeAlias

from ottla.coordinator.consumer.member import NOTHING, Target, TopicPartition

UNIFORM: Final = "uniform"
RANGE: Final = "range"


class Subscriber(NamedTuple):
    """A member, as an assignor sees it: ids of topics that exist, and what it was to own so far."""

    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    target: Target = NOTHING


Counts: TypeAlias = Mapping[bytes, int]  # partitions by topic id
Assignor: TypeAlias = Callable[[Sequence[Subscriber], Counts], dict[str, Target]]


def assign_uniform(members: Sequence[Subscriber], counts: Counts) -> dict[str, Target]:
    """Even and sticky. Where all subscribe to the same, nobody has two more than another."""
    if not members:
        return {}
    first = members[0].topic_ids
    if all(member.topic_ids == first for member in members):
        return _assign_same(members, first, counts)
    return _assign_different(members, counts)


def _assign_same(
    members: Sequence[Subscriber], topic_ids: frozenset[bytes], counts: Counts
) -> dict[str, Target]:
    everything = [(each, index) for each in sorted(topic_ids) for index in range(counts[each])]
    quota, extra = divmod(len(everything), len(members))
    free = dict.fromkeys(everything)
    kept: dict[str, list[TopicPartition]] = {}
    for member in members:
        mine = sorted(each for each in member.target if each in free)
        size = quota
        if len(mine) > quota and extra:
            size += 1
            extra -= 1
        kept[member.member_id] = mine = mine[:size]
        for each in mine:
            del free[each]
    rest = iter(free)
    targets: dict[str, Target] = {}
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


def _assign_different(members: Sequence[Subscriber], counts: Counts) -> dict[str, Target]:
    """Members want different topics: keep what holds, give out the rest, then even it out."""
    owned: dict[str, set[TopicPartition]] = {}
    taken: set[TopicPartition] = set()
    subscribers: dict[bytes, list[str]] = {}
    for member in members:
        for topic_id in sorted(member.topic_ids):
            subscribers.setdefault(topic_id, []).append(member.member_id)
        mine = {
            each
            for each in member.target
            if each not in taken and each[0] in member.topic_ids and each[1] < counts[each[0]]
        }
        taken |= mine
        owned[member.member_id] = mine
    # Topics with few subscribers first: their partitions have the least choice.
    for topic_id in sorted(subscribers, key=lambda each: (len(subscribers[each]), each)):
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


def _balance(owned: dict[str, set[TopicPartition]], subscribers: dict[bytes, list[str]]) -> None:
    """Move partitions, topic by topic, from who has more to who has less, until nothing is gained.

    A move makes the sum of the squares of all sizes smaller, so this comes to an end.
    """
    spare: dict[bytes, dict[str, list[TopicPartition]]] = {each: {} for each in subscribers}
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
    spare: dict[str, list[TopicPartition]],
    owned: dict[str, set[TopicPartition]],
) -> bool:
    """`spare` is what members have of this topic."""
    low = [(len(owned[member_id]), member_id) for member_id in member_ids]
    high = [(-len(owned[each]), each) for each, partitions in spare.items() if partitions]
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
        for each in (giver, taker):
            heappush(low, (len(owned[each]), each))
            heappush(high, (-len(owned[each]), each))
        moved = True
    return moved


def assign_range(members: Sequence[Subscriber], counts: Counts) -> dict[str, Target]:
    """Static members come first, by their instance; so the same instance gets the same range."""
    in_order = sorted(
        members, key=lambda each: (each.instance_id is None, each.instance_id or each.member_id)
    )
    subscribers: dict[bytes, list[str]] = {}
    for member in in_order:
        for topic_id in member.topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    owned: dict[str, list[TopicPartition]] = {member.member_id: [] for member in members}
    for topic_id, member_ids in subscribers.items():
        quota, extra = divmod(counts[topic_id], len(member_ids))
        start = 0
        for place, member_id in enumerate(member_ids):
            end = start + quota + (place < extra)
            owned[member_id].extend((topic_id, index) for index in range(start, end))
            start = end
    return {
        member.member_id: member.target
        if member.target == (mine := frozenset(owned[member.member_id]))
        else mine
        for member in members
    }


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}
