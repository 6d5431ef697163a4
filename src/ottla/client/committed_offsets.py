"""The committed offsets of a group, for all partitions.

This sends OffsetFetch itself, because librdkafka's admin client (2.16) loses the end of an offset's
metadata and returns the memory behind it, or fails. What confluent-kafka commits ends with the NUL
of C's strings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.admin_session import AdminSession
from ottla.client.protocol.connection import check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.coordinators import KeyType, coordinator_on
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, LOST_CONNECTION, with_retries
from ottla.client.record import TopicPartition
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

NAMES_UNTIL: Final = 9  # later versions name topics by id


@dataclass(slots=True, frozen=True)
class OffsetAndMetadata:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str | None = None


def committed_offsets(session: AdminSession, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """On new connections: an Admin may live for long, and brokers come and go."""
    request = OffsetFetchRequest(group, groups=[OffsetFetchRequestGroup(group, topics=None)])

    def ask() -> dict[TopicPartition, OffsetAndMetadata]:
        where = session.bootstrap_servers
        with ConnectionPool(
            where, settings=session.settings, timeout_s=session.timeout_s
        ) as connections:
            connection = connections.connection(coordinator_on(connections, KeyType.GROUP, group))
            answer = connection.call(
                request, ApiKey.OFFSET_FETCH, OffsetFetchResponse, version_max=NAMES_UNTIL
            )
        return _read(answer, group)

    return with_retries(session.timeout_s, ask, LOST_CONNECTION | COORDINATOR_RETRIABLE)


def _read(answer: OffsetFetchResponse, name: str) -> dict[TopicPartition, OffsetAndMetadata]:
    """Before version 8 a response is about one group, and has its topics directly."""
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    groups: list[OffsetFetchResponseGroup | OffsetFetchResponse] = [*answer.groups]
    for group in groups or [answer]:
        check(group.error_code, "", ApiKey.OFFSET_FETCH, name)
        for topic in group.topics:
            for partition in topic.partitions:
                where = f"{topic.name}-{partition.partition_index}"
                check(partition.error_code, where, ApiKey.OFFSET_FETCH, topic.name)
                if partition.committed_offset >= 0:
                    epoch, commit_metadata = partition.committed_leader_epoch, partition.metadata
                    found[TopicPartition(topic.name, partition.partition_index)] = (
                        OffsetAndMetadata(
                            partition.committed_offset,
                            None if epoch < 0 else epoch,
                            None if commit_metadata is None else commit_metadata.removesuffix("\0"),
                        )
                    )
    return found
