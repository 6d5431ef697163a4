"""Who reads which partitions of a share group: Kafka's `simple` assignor (KIP-932).

Every partition has somebody, every member has something: with more members than partitions some
share one, as evenly as it goes. What a member has it keeps, as far as that is fair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.share.keys import Partitions

TopicPartition = tuple[bytes, int]


def assign(
    members: Mapping[str, frozenset[bytes]],
    partitions: Iterable[TopicPartition],
    before: Mapping[str, Partitions],
) -> dict[str, Partitions]:
    """`members` name the topics that they want; `before` is what they have."""
    wanted = sorted(
        each for each in partitions if any(each[0] in topics for topics in members.values())
    )
    readers: dict[TopicPartition, list[str]] = {each: [] for each in wanted}
    given: dict[str, list[TopicPartition]] = {member_id: [] for member_id in sorted(members)}
    if wanted:
        _keep(members, before, readers, given)
        _fill_partitions(members, readers, given)
        _fill_members(members, readers, given)
    return {member_id: _by_topic(each) for member_id, each in given.items()}


def _keep(
    members: Mapping[str, frozenset[bytes]],
    before: Mapping[str, Partitions],
    readers: dict[TopicPartition, list[str]],
    given: dict[str, list[TopicPartition]],
) -> None:
    """What may stay where it is: at most everybody's fair part, one more for as many as it takes.

    With enough partitions it is members who have several, else partitions.
    """
    few_members = len(given) <= len(readers)
    fair, more = divmod(len(readers), len(given))
    if not few_members:
        shared, more = divmod(len(given), len(readers))
    for member_id, taken in given.items():
        for topic_id, indexes in before.get(member_id, {}).items():
            if topic_id not in members[member_id]:
                continue
            for index in indexes:
                each = (topic_id, index)
                if each not in readers:
                    continue
                count, most = (len(taken), fair) if few_members else (len(readers[each]), shared)
                if not few_members and taken:
                    continue
                if few_members and readers[each]:
                    continue
                if count == most and more:
                    more -= 1
                elif count >= most:
                    continue
                taken.append(each)
                readers[each].append(member_id)


def _fill_partitions(
    members: Mapping[str, frozenset[bytes]],
    readers: dict[TopicPartition, list[str]],
    given: dict[str, list[TopicPartition]],
) -> None:
    """A partition that nobody reads goes to who has least, of those who want its topic."""
    for each, who in readers.items():
        if not who:
            willing = [member_id for member_id in given if each[0] in members[member_id]]
            chosen = min(willing, key=lambda member_id: len(given[member_id]))
            given[chosen].append(each)
            who.append(chosen)


def _fill_members(
    members: Mapping[str, frozenset[bytes]],
    readers: dict[TopicPartition, list[str]],
    given: dict[str, list[TopicPartition]],
) -> None:
    """Who has nothing joins the fewest readers of what it wants."""
    for member_id, taken in given.items():
        if not taken:
            possible = [each for each in readers if each[0] in members[member_id]]
            if possible:
                chosen = min(possible, key=lambda each: len(readers[each]))
                taken.append(chosen)
                readers[chosen].append(member_id)


def _by_topic(partitions: Iterable[TopicPartition]) -> Partitions:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in topics.items()}
