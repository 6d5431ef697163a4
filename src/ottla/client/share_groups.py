"""Share groups (KIP-932): describe and delete them, and change their start offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin_session import AdminSession
from ottla.client.group_descriptions import GroupDescription, describe_share_groups
from ottla.client.groups import GroupAdmin, Listings
from ottla.client.protocol.connection import check
from ottla.client.protocol.coordinators import KeyType, coordinators_of
from ottla.client.protocol.retries import with_retries
from ottla.client.record import TopicPartition
from ottla.client.redrive import Progress, RedriveFilter, RedriveSummary, redrive
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
)
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
)
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
)


@dataclass(slots=True, frozen=True)
class ShareOffset:
    """The start offset of a share partition; None: nobody has read it. The lag may be unknown."""

    start_offset: int | None
    leader_epoch: int | None = None
    lag: int | None = None


class ShareGroupAdmin:
    def __init__(self, session: AdminSession) -> None:
        self._session = session

    def list(self, *, states: Iterable[str] = ()) -> Listings:
        groups = GroupAdmin(self._session).list_all(states=states, types=["share"])
        return [group for group in groups if group.type == "Share"]

    def describe(self, *names: str) -> dict[str, GroupDescription | KafkaError]:
        """For each share group its description, or the error."""
        return describe_share_groups(self._session, names)

    def offsets(
        self, name: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareOffset | KafkaError]:
        """The group's start offsets, of these partitions or of all that it has."""
        topics = None
        if partitions is not None:
            topics = [
                DescribeShareGroupOffsetsRequestTopic(
                    topic, [partition.partition for partition in found]
                )
                for topic, found in _by_topic(partitions).items()
            ]
        part = DescribeShareGroupOffsetsRequestGroup(name, topics)

        def ask() -> dict[TopicPartition, ShareOffset | KafkaError]:
            answer = self._session.connections.call(
                DescribeShareGroupOffsetsRequest([part]),
                ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
                DescribeShareGroupOffsetsResponse,
                node_id=self._coordinator(name),
            )
            (group,) = answer.groups
            api_key = ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS
            check(group.error_code, group.error_message, api_key, name)
            return {
                TopicPartition(topic.topic_name, part.partition_index): (
                    KafkaError(ErrorCode(part.error_code), part.error_message or "")
                    if part.error_code
                    else ShareOffset(
                        _known(part.start_offset), _known(part.leader_epoch), _known(part.lag)
                    )
                )
                for topic in group.topics
                for part in topic.partitions
            }

        return with_retries(self._session.timeout_s, ask)

    def alter_offsets(
        self, name: str, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Set start offsets. The group must have no members; it is created if need be."""
        request = AlterShareGroupOffsetsRequest(
            name,
            [
                AlterShareGroupOffsetsRequestTopic(
                    topic,
                    [
                        AlterShareGroupOffsetsRequestPartition(
                            partition.partition, offsets[partition]
                        )
                        for partition in found
                    ],
                )
                for topic, found in _by_topic(offsets).items()
            ],
        )

        def ask() -> dict[TopicPartition, KafkaError | None]:
            answer = self._session.connections.call(
                request,
                ApiKey.ALTER_SHARE_GROUP_OFFSETS,
                AlterShareGroupOffsetsResponse,
                node_id=self._coordinator(name),
            )
            api_key = ApiKey.ALTER_SHARE_GROUP_OFFSETS
            check(answer.error_code, answer.error_message, api_key, name)
            return {
                TopicPartition(topic.topic_name, part.partition_index): _failure(
                    part.error_code, part.error_message
                )
                for topic in answer.responses
                for part in topic.partitions
            }

        return with_retries(self._session.timeout_s, ask)

    def delete_offsets(self, name: str, topics: Iterable[str]) -> dict[str, KafkaError | None]:
        """Delete the offsets of these topics. The group must have no members."""
        request = DeleteShareGroupOffsetsRequest(
            name, [DeleteShareGroupOffsetsRequestTopic(topic) for topic in topics]
        )

        def ask() -> dict[str, KafkaError | None]:
            answer = self._session.connections.call(
                request,
                ApiKey.DELETE_SHARE_GROUP_OFFSETS,
                DeleteShareGroupOffsetsResponse,
                node_id=self._coordinator(name),
            )
            api_key = ApiKey.DELETE_SHARE_GROUP_OFFSETS
            check(answer.error_code, answer.error_message, api_key, name)
            return {
                topic.topic_name: _failure(topic.error_code, topic.error_message)
                for topic in answer.responses
            }

        return with_retries(self._session.timeout_s, ask)

    def delete(self, *names: str) -> dict[str, KafkaError | None]:
        """Delete share groups; for each None, or why it still exists."""
        return GroupAdmin(self._session).delete(*names)

    def redrive(
        self,
        name: str,
        choice: RedriveFilter | None = None,
        *,
        dry_run: bool = False,
        progress: Progress = lambda summary: None,
    ) -> RedriveSummary:
        """Send the group's dead letters back to their source topics, exactly once (KIP-1191)."""
        return redrive(self._session, name, choice, dry_run=dry_run, progress=progress)

    def _coordinator(self, name: str) -> int:
        return coordinators_of(self._session, KeyType.GROUP, [name])[name]


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    topics: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        topics.setdefault(partition.topic, []).append(partition)
    return topics


def _known(value: int) -> int | None:
    return None if value < 0 else value


def _failure(code: int, message: str | None) -> KafkaError | None:
    return KafkaError(ErrorCode(code), message or "") if code else None
