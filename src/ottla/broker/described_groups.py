"""What a client is not shown of a group: members, if they read topics that it may not DESCRIBE."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.context import Context
from ottla.errors import ErrorCode

MESSAGE = "The group has described topic(s) that the client is not authorized to describe."


def hide_topics(ctx: Context, groups: Iterable[Any]) -> None:
    """As Kafka does: an error in place of the members, in groups of both kinds (KIP-848, 932)."""
    if ctx.rights is None:
        return
    for group in groups:
        if group.error_code:
            continue
        topics = {topic for member in group.members for topic in _topics(member)}
        if all(ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic) for topic in topics):
            continue
        _refuse(group)


def hide_topology(ctx: Context, groups: Iterable[Any]) -> None:
    """The same for streams groups (KIP-1071), whose topics are those of the topology."""
    if ctx.rights is None:
        return
    for group in groups:
        if group.error_code or group.topology is None:
            continue
        topics = {
            name for part in group.topology.subtopologies or () for name in topics_of_topology(part)
        }
        if all(ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic) for topic in topics):
            continue
        _refuse(group)


def _refuse(group: Any) -> None:
    """Nothing but its name and the error: state and epochs are not told, either."""
    nothing = type(group)(group_id=group.group_id)
    for field in group.__match_args__:
        setattr(group, field, getattr(nothing, field))
    group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    group.error_message = MESSAGE


def topics_of_topology(part: Any) -> Iterable[str]:
    """Of a sub-topology, as a heartbeat declares it and as a description shows it."""
    yield from part.source_topics
    yield from part.repartition_sink_topics
    yield from (topic.name for topic in part.repartition_source_topics)
    yield from (topic.name for topic in part.state_changelog_topics)


def _topics(member: Any) -> Iterable[str]:
    yield from member.subscribed_topic_names or ()
    for assignment in (member.assignment, getattr(member, "target_assignment", None)):
        if assignment is not None:
            yield from (each.topic_name for each in assignment.topic_partitions)
