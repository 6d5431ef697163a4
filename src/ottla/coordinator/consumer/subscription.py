"""From the subscriptions of the members to the epoch and the target of the group.

The epoch of a group rises when the subscriptions of its members change, or the topics that they
subscribe to: one is created, deleted, or gets partitions. The target of an epoch is computed once,
at the first heartbeat that finds it missing, and no more often than the assignment interval allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Final, NamedTuple

from ottla.coordinator.consumer.assignors import ASSIGNORS, Assignor, Subscriber
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import PartitionSet
from ottla.coordinator.consumer.records import ResolvedRegularExpression
from ottla.coordinator.consumer.regex import RegexPattern
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.group_type import TopicsImage, metadata_hash
from ottla.errors import KafkaError

# Subscriptions of all members together; to assign so many takes 10 to 30 ms.
ASSIGNED_AT_ONCE_MAX: Final = 20_000
NO_NAMES: Final[frozenset[str]] = frozenset()

_log = logging.getLogger("ottla.coordinator")


def refresh(group: ConsumerGroup, event: GroupEvent, *, bump: bool) -> None:
    """Raise the epoch if the subscriptions changed, or the topics that they name."""
    if group.seen is event.topics and not bump:
        return
    for regex in group.unused_regexes():
        group.remove_regex(regex, event)
    if group.seen is not event.topics:
        for regex in list(group.regexes):
            _resolve_again(group, regex, event)
        new_hash = metadata_hash(group.subscribed_names(), event.topics)
        group.seen = event.topics
    else:
        new_hash = group.metadata_hash
    if bump or new_hash != group.metadata_hash:
        group.bump_epoch(new_hash, event)


def resolve(group: ConsumerGroup, regex: str, event: GroupEvent) -> None:
    """Resolve a regular expression of this group; recorded if its topics have changed."""
    topics = matching(regex, event.topics)
    before = group.regexes.get(regex)
    if before is None or before.topics != topics:
        version = 0 if before is None else before.version + 1
        group.put_regex(regex, ResolvedRegularExpression(topics, version, event.now_ms), event)


def _resolve_again(group: ConsumerGroup, regex: str, event: GroupEvent) -> None:
    """An expression that fails later must not fail the heartbeats of other members."""
    try:
        resolve(group, regex, event)
    except KafkaError as error:
        _log.warning(
            "Group %s: failed to resolve regular expression %r, keeping its previous topics: %s",
            group.group_id,
            regex,
            error.message,
        )


@lru_cache(maxsize=16)
def matching(regex: str, topics: TopicsImage) -> frozenset[str]:
    """The topics that an expression matches; KafkaError if it is invalid, or takes too long.

    Cached, because a new expression is resolved more than once, and by many groups.
    """
    pattern = RegexPattern(regex)
    return frozenset(name for name in topics.by_name if pattern.matches(name))


def update_target(group: ConsumerGroup, event: GroupEvent) -> None:
    """Compute the target of the group's epoch, unless it exists or it is too soon."""
    if group.target_epoch >= group.epoch:
        return
    interval_ms = event.config.consumer.of_group(group.group_id).assignment_interval_ms
    if group.target_timestamp_ms > 0:
        passed_ms = event.now_ms - group.target_timestamp_ms
        if 0 <= passed_ms < interval_ms:  # below 0 the clock was set back, by whatever time
            return
    regexes = {regex: resolved.topics for regex, resolved in group.regexes.items()}
    subscriptions = [
        MemberSubscription(
            member.member_id,
            member.instance_id,
            member.topics,
            regexes.get(member.regex, NO_NAMES),
            group.target_of(member.member_id),
        )
        for member in group.members.values()
    ]
    compute = partial(_assign, ASSIGNORS[assignor_of(group, event)], subscriptions, event.topics)
    size = sum(
        len(subscription.names) + len(subscription.matched) for subscription in subscriptions
    )
    first = group.target_epoch == 0  # without a target no member can have an epoch
    if first or size <= ASSIGNED_AT_ONCE_MAX or not event.config.consumer.assigns_elsewhere:
        group.set_targets(compute(), event)
    else:
        _assign_elsewhere(group, compute, event)


def _assign_elsewhere(
    group: ConsumerGroup, compute: Callable[[], dict[str, PartitionSet]], event: GroupEvent
) -> None:
    """Compute the target off the event loop.

    Until it is there the previous target holds, as it does within the assignment interval. The next
    heartbeat of any member takes the new one over, if the group still has the same epoch.
    """
    epoch = group.epoch
    if group.assigned is not None:
        of_epoch, targets = group.assigned
        group.assigned = None
        if of_epoch == epoch and targets.keys() == group.members.keys():
            group.set_targets(targets, event)
            return
    if group.is_assigning:  # one at a time: while members join, each of them raises the epoch
        return
    group.is_assigning = True

    def on_computed(targets: dict[str, PartitionSet] | None) -> None:
        group.is_assigning = False
        group.assigned = None if targets is None else (epoch, targets)

    event.result.work.append((compute, on_computed))


def assignor_of(group: ConsumerGroup, event: GroupEvent) -> str:
    preferred = group.preferred_assignor
    if preferred is not None and preferred in ASSIGNORS:
        return preferred
    return event.config.consumer.assignors[0]


class MemberSubscription(NamedTuple):
    """The subscription of one member when the computation began."""

    member_id: str
    instance_id: str | None
    names: frozenset[str]
    matched: frozenset[str]  # by its expression
    target: PartitionSet


def _assign(
    assign: Assignor, subscriptions: list[MemberSubscription], topics: TopicsImage
) -> dict[str, PartitionSet]:
    """Pure, so that any thread can run it. Most members of a group have the same subscription, so
    its topics are looked up once."""
    known = topics.by_name
    counts = {view.id: view.partition_count for view in known.values()}
    ids: dict[tuple[frozenset[str], frozenset[str]], frozenset[bytes]] = {}
    subscribers = []
    for member_id, instance_id, names, matched, target in subscriptions:
        subscription_key = names, matched
        if subscription_key not in ids:
            ids[subscription_key] = frozenset(
                known[name].id for name in names | matched if name in known
            )
        subscribers.append(Subscriber(member_id, instance_id, ids[subscription_key], target))
    return assign(subscribers, counts)
