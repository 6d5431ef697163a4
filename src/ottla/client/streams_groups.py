"""Streams groups (KIP-1071): their members, tasks and topologies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from ottla.client.admin_session import AdminSession
from ottla.client.group_descriptions import GroupDescription, MemberDescription
from ottla.client.groups import GroupAdmin, Listings
from ottla.client.protocol.connection import Node
from ottla.client.protocol.coordinators import KeyType, by_coordinator
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, with_retries
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages import streams_group_describe as wire

ASSIGNOR = "sticky"


@dataclass(slots=True, frozen=True)
class StreamsGroupDescription:
    """`group` is the coordinator's answer."""

    group: wire.DescribedGroup
    coordinator: Node

    def sources(self) -> dict[str, list[str]]:
        """The topics that the tasks of each subtopology read."""
        topology = self.group.topology
        found = [] if topology is None else topology.subtopologies or []
        return {
            subtopology.subtopology_id: sorted(
                {
                    *subtopology.source_topics,
                    *(topic.name for topic in subtopology.repartition_source_topics),
                }
            )
            for subtopology in found
        }

    def internal_topics(self) -> list[str]:
        topology = self.group.topology
        found = [] if topology is None else topology.subtopologies or []
        return sorted(
            {
                topic.name
                for subtopology in found
                for topic in (
                    *subtopology.repartition_source_topics,
                    *subtopology.state_changelog_topics,
                )
            }
        )

    def as_group(self) -> GroupDescription:
        """In the form of all group types: an active task reads partitions."""
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


def _member(member: wire.Member, sources: dict[str, list[str]]) -> MemberDescription:
    assert member.assignment is not None
    assert member.target_assignment is not None
    return MemberDescription(
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


class StreamsGroupAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def list(self, *, states: Iterable[str] = ()) -> Listings:
        groups = GroupAdmin(self._session).list_all(states=states, types=["streams"])
        return [group for group in groups if group.type == "Streams"]

    def describe(self, *names: str) -> dict[str, StreamsGroupDescription | KafkaError]:
        """For each streams group its description, or the error."""
        session = self._session
        results: dict[str, StreamsGroupDescription | KafkaError] = {}
        for node_id, group in by_coordinator(session, KeyType.GROUP, names).items():
            node = session.connections.nodes()[node_id]
            results |= with_retries(session.timeout_s, partial(self._describe_on, node, group))
        return {name: results[name] for name in names}

    def _describe_on(
        self, node: Node, names: Iterable[str]
    ) -> dict[str, StreamsGroupDescription | KafkaError]:
        answer = self._session.connections.call(
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
