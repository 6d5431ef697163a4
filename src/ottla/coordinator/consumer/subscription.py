"""From what members subscribe to, to the group's epoch and its target.

A group's epoch goes up when what its members want changes, or when the topics they want do: a
topic appears, grows or goes. The target of an epoch is computed once, at the first heartbeat that
finds it missing, and not more often than the assignment interval allows.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final, NamedTuple

from ottla.coordinator.consumer.assignors import ASSIGNORS, Assignor, Subscriber
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Target
from ottla.coordinator.consumer.records import Resolved
from ottla.coordinator.consumer.regex import Pattern
from ottla.coordinator.kinds import Topics
from ottla.coordinator.outcome import Turn
from ottla.errors import KafkaError

# Subscriptions of all members together: so many are assigned in 10 to 30 ms.
ASSIGNED_AT_ONCE_MAX: Final = 20_000
NO_NAMES: Final[frozenset[str]] = frozenset()

_log = logging.getLogger("ottla.coordinator")


def refresh(group: ConsumerGroup, turn: Turn, *, bump: bool) -> None:
    """Look at the topics again if they or the subscriptions changed; then the epoch goes up."""
    if group.seen is turn.topics and not bump:
        return
    for regex in group.unused_regexes():
        group.remove_regex(regex, turn)
    if group.seen is not turn.topics:
        for regex in list(group.regexes):
            _resolve_again(group, regex, turn)
        metadata_hash = hash_of(group.subscribed_names(), turn.topics)
        group.seen = turn.topics
    else:
        metadata_hash = group.metadata_hash
    if bump or metadata_hash != group.metadata_hash:
        group.bump_epoch(metadata_hash, turn)


def resolve(group: ConsumerGroup, regex: str, turn: Turn) -> None:
    """Which topics an expression of this group matches; recorded if that is something new."""
    topics = matching(regex, turn.topics)
    before = group.regexes.get(regex)
    if before is None or before.topics != topics:
        version = 0 if before is None else before.version + 1
        group.put_regex(regex, Resolved(topics, version, turn.now_ms), turn)


def _resolve_again(group: ConsumerGroup, regex: str, turn: Turn) -> None:
    """Once it is subscribed to, an expression can fail only its own members, not their group."""
    try:
        resolve(group, regex, turn)
    except KafkaError as error:
        _log.warning("group %s keeps the topics that it had: %s", group.group_id, error.message)


@lru_cache(maxsize=16)
def matching(regex: str, topics: Topics) -> frozenset[str]:
    """The names of topics that an expression matches; KafkaError if it is none, or takes too long.

    Remembered, as it is asked for more than once when an expression is new, and by many groups.
    """
    pattern = Pattern(regex)
    return frozenset(name for name in topics.by_name if pattern.matches(name))


def hash_of(names: set[str], topics: Topics) -> int:
    """A number that changes when any of these topics does. 0 is that of no topics.

    Kafka's is another function. A group that comes from there has its epoch raised once.
    """
    known = topics.by_name
    found = sorted((name, known[name]) for name in names if name in known)
    if not found:
        return 0
    digest = blake2b(digest_size=8)
    for name, topic in found:
        digest.update(name.encode() + b"\0" + topic.id + topic.partition_count.to_bytes(4, "big"))
    return int.from_bytes(digest.digest(), "big", signed=True)


def update_target(group: ConsumerGroup, turn: Turn) -> None:
    """Compute the target of the group's epoch, if that has not been done and may be done now."""
    if group.target_epoch >= group.epoch:
        return
    interval_ms = turn.config.consumer.of_group(group.group_id).assignment_interval_ms
    if group.target_timestamp_ms > 0:
        passed_ms = turn.now_ms - group.target_timestamp_ms
        if 0 <= passed_ms < interval_ms:  # below 0 the clock was set back, who knows how far
            return
    regexes = {regex: resolved.topics for regex, resolved in group.regexes.items()}
    wishes = [
        MemberSubscription(
            member.member_id,
            member.instance_id,
            member.topics,
            regexes.get(member.regex, NO_NAMES),
            group.target_of(member.member_id),
        )
        for member in group.members.values()
    ]
    compute = partial(_assigned, ASSIGNORS[assignor_of(group, turn)], wishes, turn.topics)
    size = sum(len(wish.names) + len(wish.matched) for wish in wishes)
    first = group.target_epoch == 0  # without any target no member has an epoch
    if first or size <= ASSIGNED_AT_ONCE_MAX or not turn.config.consumer.assigns_elsewhere:
        group.set_targets(compute(), turn)
    else:
        _assign_elsewhere(group, compute, turn)


def _assign_elsewhere(
    group: ConsumerGroup, compute: Callable[[], dict[str, Target]], turn: Turn
) -> None:
    """Until it is computed the target of before holds, as it does within the assignment interval;
    the next heartbeat of any member takes it over, if it is still that of the group."""
    epoch = group.epoch
    if group.assigned is not None:
        of_epoch, targets = group.assigned
        group.assigned = None
        if of_epoch == epoch and targets.keys() == group.members.keys():
            group.set_targets(targets, turn)
            return
    if group.assigning:  # one at a time: while members come, each of them raises the epoch
        return
    group.assigning = True

    def take(targets: dict[str, Target] | None) -> None:
        group.assigning = False
        group.assigned = None if targets is None else (epoch, targets)

    turn.outcome.work.append((compute, take))


def assignor_of(group: ConsumerGroup, turn: Turn) -> str:
    preferred = group.preferred_assignor
    if preferred is not None and preferred in ASSIGNORS:
        return preferred
    return turn.config.consumer.assignors[0]


class MemberSubscription(NamedTuple):
    """What one member wants, as it was when the work began."""

    member_id: str
    instance_id: str | None
    names: frozenset[str]
    matched: frozenset[str]  # by its expression
    target: Target


def _assigned(
    assign: Assignor, wishes: list[MemberSubscription], topics: Topics
) -> dict[str, Target]:
    """Pure, so that it can be done anywhere. Most members of a group subscribe to the same, which
    then is looked up once."""
    known = topics.by_name
    counts = {view.id: view.partition_count for view in known.values()}
    ids: dict[tuple[frozenset[str], frozenset[str]], frozenset[bytes]] = {}
    subscribers = []
    for member_id, instance_id, names, matched, target in wishes:
        wanted = names, matched
        if wanted not in ids:
            ids[wanted] = frozenset(known[name].id for name in names | matched if name in known)
        subscribers.append(Subscriber(member_id, instance_id, ids[wanted], target))
    return assign(subscribers, counts)
