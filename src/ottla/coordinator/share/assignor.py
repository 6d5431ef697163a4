"""Which member reads which partitions of a share group: Kafka's `simple` assignor (KIP-932).

Every partition has a member, and every member a partition: with more members than partitions some
members share one, as evenly as possible. Members keep what they have, as far as that is fair.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.coordinator.share.group_records import Partitions

TopicIdPartition = tuple[bytes, int]


class SimpleAssignor:
    """`subscriptions` are topic ids by member; `before` is the assignment to stay close to."""

    def __init__(
        self,
        subscriptions: Mapping[str, frozenset[bytes]],
        partitions: Iterable[TopicIdPartition],
        before: Mapping[str, Partitions],
    ) -> None:
        self._subscriptions = subscriptions
        self._before = before
        topics = frozenset().union(*subscriptions.values())
        self._members: dict[TopicIdPartition, list[str]] = {
            partition: [] for partition in sorted(partitions) if partition[0] in topics
        }
        self._assigned: dict[str, list[TopicIdPartition]] = {
            member_id: [] for member_id in sorted(subscriptions)
        }

    def assign(self) -> dict[str, Partitions]:
        if self._members:
            self._keep()
            self._fill_partitions()
            self._fill_members()
        return {
            member_id: _by_topic(partitions) for member_id, partitions in self._assigned.items()
        }

    def _keep(self) -> None:
        """Keep at most a fair share for each, and one more for as many as it takes.

        With enough partitions members have several of them; else partitions have several members.
        """
        few_members = len(self._assigned) <= len(self._members)
        fair, extra = divmod(len(self._members), len(self._assigned))
        if not few_members:
            shared, extra = divmod(len(self._assigned), len(self._members))
        for member_id, taken in self._assigned.items():
            for partition in self._former(member_id):
                members = self._members[partition]
                count, most = (len(taken), fair) if few_members else (len(members), shared)
                if members if few_members else taken:
                    continue
                if count == most and extra:
                    extra -= 1
                elif count >= most:
                    continue
                taken.append(partition)
                members.append(member_id)

    def _former(self, member_id: str) -> Iterable[TopicIdPartition]:
        """What the member had, of what it still subscribes to and what still exists."""
        for topic_id, indexes in self._before.get(member_id, {}).items():
            if topic_id in self._subscriptions[member_id]:
                for index in indexes:
                    if (topic_id, index) in self._members:
                        yield topic_id, index

    def _fill_partitions(self) -> None:
        """A partition without a member goes to the subscriber that has the fewest partitions."""
        for partition, members in self._members.items():
            if not members:
                subscribers = [
                    member_id
                    for member_id in self._assigned
                    if partition[0] in self._subscriptions[member_id]
                ]
                chosen = min(subscribers, key=lambda member_id: len(self._assigned[member_id]))
                self._assigned[chosen].append(partition)
                members.append(chosen)

    def _fill_members(self) -> None:
        """A member without a partition gets the one of its topics that has the fewest members."""
        for member_id, taken in self._assigned.items():
            if not taken:
                topics = self._subscriptions[member_id]
                possible = [partition for partition in self._members if partition[0] in topics]
                if possible:
                    chosen = min(possible, key=lambda partition: len(self._members[partition]))
                    taken.append(chosen)
                    self._members[chosen].append(member_id)


def _by_topic(partitions: Iterable[TopicIdPartition]) -> Partitions:
    topics: dict[bytes, list[int]] = {}
    for topic_id, index in sorted(partitions):
        topics.setdefault(topic_id, []).append(index)
    return {topic_id: tuple(indexes) for topic_id, indexes in topics.items()}
