"""From what members subscribe to, to the group's epoch and its target.

A group's epoch goes up when what its members want changes, or when the topics they want do: a
topic appears, grows or goes. The target of an epoch is computed once, at the first heartbeat that
finds it missing, and not more often than the assignment interval allows.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from hashlib import blake2b

from ottla.coordinator.consumer.assignors import ASSIGNORS, Subscriber
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import ConsumerMember
from ottla.coordinator.consumer.records import Resolved
from ottla.coordinator.consumer.regex import Pattern
from ottla.coordinator.kinds import Topics
from ottla.coordinator.outcome import Turn
from ottla.errors import KafkaError

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
    counts = {view.id: view.partition_count for view in turn.topics.by_name.values()}
    ids: dict[tuple[frozenset[str], str], frozenset[bytes]] = {}
    subscribers = [_subscriber(group, member, turn, ids) for member in group.members.values()]
    group.set_targets(ASSIGNORS[assignor_of(group, turn)](subscribers, counts), turn)


def assignor_of(group: ConsumerGroup, turn: Turn) -> str:
    preferred = group.preferred_assignor
    if preferred is not None and preferred in ASSIGNORS:
        return preferred
    return turn.config.consumer.assignors[0]


def _subscriber(
    group: ConsumerGroup,
    member: ConsumerMember,
    turn: Turn,
    ids: dict[tuple[frozenset[str], str], frozenset[bytes]],
) -> Subscriber:
    """Most members of a group subscribe to the same, which then is looked up once."""
    wanted = member.topics, member.regex
    if wanted not in ids:
        ids[wanted] = group.topic_ids(member, turn.topics)
    target = group.target_of(member.member_id)
    return Subscriber(member.member_id, member.instance_id, ids[wanted], target)
