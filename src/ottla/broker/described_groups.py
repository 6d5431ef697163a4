"""Hides the members of a group from clients that may not DESCRIBE all topics they read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ottla.auth.acls import AclOperation, AclResource
from ottla.broker.request_context import RequestContext
from ottla.errors import ErrorCode

MESSAGE = "The group has described topic(s) that the client is not authorized to describe."


def redact_described_groups(ctx: RequestContext, groups: Iterable[Any]) -> None:
    """As in Kafka, an error replaces the members (KIP-848, KIP-932)."""
    if ctx.rights is None:
        return
    for group in groups:
        if group.error_code:
            continue
        topics = {topic for member in group.members for topic in _topics(member)}
        if all(ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic) for topic in topics):
            continue
        _refuse(group)


def redact_described_streams_groups(ctx: RequestContext, groups: Iterable[Any]) -> None:
    """The same for streams groups (KIP-1071), whose topics are in the topology."""
    if ctx.rights is None:
        return
    for group in groups:
        if group.error_code or group.topology is None:
            continue
        topics = {
            name for part in group.topology.subtopologies or () for name in topology_topics(part)
        }
        if all(ctx.may(AclOperation.DESCRIBE, AclResource.TOPIC, topic) for topic in topics):
            continue
        _refuse(group)


def _refuse(group: Any) -> None:
    """Leave only the group's name and the error, without its state and epochs."""
    nothing = type(group)(group_id=group.group_id)
    for field in group.__match_args__:
        setattr(group, field, getattr(nothing, field))
    group.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    group.error_message = MESSAGE


def topology_topics(part: Any) -> Iterable[str]:
    """The topics of a sub-topology, from a heartbeat or from a description."""
    yield from part.source_topics
    yield from part.repartition_sink_topics
    yield from (topic.name for topic in part.repartition_source_topics)
    yield from (topic.name for topic in part.state_changelog_topics)


def _topics(member: Any) -> Iterable[str]:
    yield from member.subscribed_topic_names or ()
    for assignment in (member.assignment, getattr(member, "target_assignment", None)):
        if assignment is not None:
            yield from (topic.topic_name for topic in assignment.topic_partitions)
