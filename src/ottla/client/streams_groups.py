"""Streams groups (KIP-1071): who is in them, and which tasks they run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from ottla.client.describing import GroupDescription, Member
from ottla.client.groups import Groups, Listings
from ottla.client.protocol.connection import Node
from ottla.client.protocol.coordinators import KeyType, by_coordinator
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, patiently
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages import streams_group_describe as wire

ASSIGNOR = "sticky"


@dataclass(slots=True, frozen=True)
class StreamsGroupDescription:
    """`group` is what the coordinator answered."""

    group: wire.DescribedGroup
    coordinator: Node

    def sources(self) -> dict[str, list[str]]:
        """The topics that the tasks of each subtopology read."""
        topology = self.group.topology
        found = [] if topology is None else topology.subtopologies or []
        return {
            each.subtopology_id: sorted(
                {*each.source_topics, *(topic.name for topic in each.repartition_source_topics)}
            )
            for each in found
        }

    def internal_topics(self) -> list[str]:
        topology = self.group.topology
        found = [] if topology is None else topology.subtopologies or []
        return sorted(
            {
                topic.name
                for each in found
                for topic in (*each.repartition_source_topics, *each.state_changelog_topics)
            }
        )

    def as_group(self) -> GroupDescription:
        """As groups of all types are described: an active task reads partitions."""
        sources = self.sources()
        return GroupDescription(
            self.group.group_id,
            self.group.group_state,
            "Streams",
            ASSIGNOR,
            self.coordinator,
            tuple(_member(member, sources) for member in self.group.members),
            self.group.group_epoch,
            self.group.assignment_epoch,
        )


def _member(member: wire.Member, sources: dict[str, list[str]]) -> Member:
    assert member.assignment is not None
    assert member.target_assignment is not None
    return Member(
        member.member_id,
        member.client_id,
        member.client_host,
        member.instance_id,
        _read_by(member.assignment.active_tasks, sources),
        member.member_epoch,
        _read_by(member.target_assignment.active_tasks, sources),
    )


def _read_by(
    tasks: Iterable[wire.TaskIds], sources: dict[str, list[str]]
) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic, index)
            for task in tasks
            for topic in sources.get(task.subtopology_id, ())
            for index in task.partitions
        )
    )


class StreamsGroups:
    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self, *, states: Iterable[str] = ()) -> Listings:
        groups = Groups(self._session).list_all(states=states, types=["streams"])
        return [each for each in groups if each.type == "Streams"]

    def describe(self, *names: str) -> dict[str, StreamsGroupDescription | KafkaError]:
        """For each streams group its description, or why there is none."""
        session = self._session
        results: dict[str, StreamsGroupDescription | KafkaError] = {}
        for node_id, group in by_coordinator(session, KeyType.GROUP, names).items():
            node = session.lines.nodes()[node_id]
            results |= patiently(session.timeout_s, partial(self._describe_on, node, group))
        return {name: results[name] for name in names}

    def _describe_on(
        self, node: Node, names: Iterable[str]
    ) -> dict[str, StreamsGroupDescription | KafkaError]:
        answer = self._session.lines.call(
            wire.StreamsGroupDescribeRequest([*names]),
            ApiKey.STREAMS_GROUP_DESCRIBE,
            wire.StreamsGroupDescribeResponse,
            node_id=node.id,
        )
        found: dict[str, StreamsGroupDescription | KafkaError] = {}
        for group in answer.groups:
            if group.error_code in COORDINATOR_RETRIABLE:
                raise KafkaError(ErrorCode(group.error_code), group.error_message or "")
            found[group.group_id] = (
                KafkaError(ErrorCode(group.error_code), group.error_message or "")
                if group.error_code
                else StreamsGroupDescription(group, node)
            )
        return found
