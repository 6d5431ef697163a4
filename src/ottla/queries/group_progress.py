"""An application's progress as the offsets of a consumer group with the application's id.

Spark's checkpoints are authoritative. The group makes the lag visible to all tools for groups, and
takes requests: an application without a checkpoint starts at the offsets that another client, such
as kafka-streams-application-reset, has committed. The offsets that the application itself commits
are a lower bound of its progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ottla.client.protocol.cluster_client import GROUP, ClusterClient, check
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.queries.cluster import KafkaCluster
from ottla.spark.checkpoints import Position
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

MARK: Final = "ottla-streams"
TAKEN: Final = f"{MARK} began here "
NAMES_UNTIL: Final = 9  # after it, requests have topic ids
PATIENCE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The group's offsets: `requested` by another client, or `reported` by the application. A
    requested offset may be `claimed` by the checkpoint whose first batch has this number."""

    requested: Position = field(default_factory=dict)
    reported: Position = field(default_factory=dict)
    claimed: Position = field(default_factory=dict)


def read_progress(cluster: KafkaCluster, application_id: str) -> GroupProgress:
    found = GroupProgress()
    with cluster.admin() as admin:
        try:
            offsets = admin.groups.offsets(application_id)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return found
            raise
    for (topic, partition), committed_offset in offsets.items():
        target = found.reported if committed_offset.metadata == MARK else found.requested
        target.setdefault(topic, {})[str(partition)] = committed_offset.offset
        _, is_claimed, first = (committed_offset.metadata or "").partition(TAKEN)
        if is_claimed:
            found.claimed.setdefault(topic, {})[str(partition)] = int(first)
    return found


def claim_positions(
    cluster: KafkaCluster, application_id: str, requested: Position, first: int
) -> None:
    """Claims the requested offsets for a checkpoint. Until it commits a batch, a new checkpoint
    would start there again."""
    commit_progress(cluster, application_id, requested, mark=f"{TAKEN}{first}")


def commit_progress(
    cluster: KafkaCluster, application_id: str, position: Position, *, mark: str = MARK
) -> None:
    """Commits the application's progress."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[
                OffsetCommitRequestPartition(int(partition), offset, committed_metadata=mark)
                for partition, offset in partitions.items()
            ],
        )
        for topic, partitions in position.items()
        if partitions
    ]
    if not topics:
        return
    request = OffsetCommitRequest(application_id, topics=topics)
    lines = ClusterClient(cluster.bootstrap_servers, cluster.settings, patience_s=PATIENCE_S)
    with closing(lines):
        answer = lines.with_retries(
            lambda: lines.coordinated(
                GROUP,
                application_id,
                request,
                ApiKey.OFFSET_COMMIT,
                OffsetCommitResponse,
                version_max=NAMES_UNTIL,
            )
        )
    for topic in answer.topics:
        for partition in topic.partitions:
            check(partition.error_code, f"offset of {topic.name}-{partition.partition_index}")


def purge_repartition_topics(
    cluster: KafkaCluster, topics: Iterable[str], position: Position
) -> None:
    """Deletes the processed records of repartition topics, which no other consumer reads."""
    done = {
        TopicPartition(topic, int(partition)): offset
        for topic in topics
        for partition, offset in position.get(topic, {}).items()
        if offset > 0
    }
    if done:
        with cluster.admin() as admin:
            admin.offsets.delete_before(done)
