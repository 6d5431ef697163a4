"""How far an application has come, told to the broker: offsets of a group that has its id.

Spark's checkpoints are what counts. The group is there to be looked at, with all tools that show
the lag of a group; and to be told where to begin: offsets that somebody else committed there, as
kafka-streams-application-reset does, are where an application begins that has no checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.spark.cluster import GROUP, check
from ottla.spark.cluster import Cluster as Lines
from ottla.spark.running.checkpoints import Position
from ottla.spark.running.cluster import Cluster
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

MARK: Final = "ottla-streams"
NAMES_UNTIL: Final = 9  # after it, OffsetCommit has topic ids
PATIENCE_S: Final = 5.0


def wished(cluster: Cluster, application_id: str) -> Position:
    """What somebody else has committed."""
    try:
        with cluster.admin() as admin:
            found = admin.groups.offsets(application_id)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return {}
        raise
    position: Position = {}
    for place, each in found.items():
        if each.metadata != MARK:
            position.setdefault(place.topic, {})[str(place.partition)] = each.offset
    return position


def tell(cluster: Cluster, application_id: str, position: Position) -> None:
    """What we have done."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[
                OffsetCommitRequestPartition(int(each), offset, committed_metadata=MARK)
                for each, offset in partitions.items()
            ],
        )
        for topic, partitions in position.items()
        if partitions
    ]
    if not topics:
        return
    request = OffsetCommitRequest(application_id, topics=topics)
    lines = Lines(cluster.bootstrap_servers, cluster.settings, patience_s=PATIENCE_S)
    try:
        answer = lines.patiently(
            lambda: lines.coordinated(
                GROUP,
                application_id,
                request,
                ApiKey.OFFSET_COMMIT,
                OffsetCommitResponse,
                version_max=NAMES_UNTIL,
            )
        )
    finally:
        lines.close()
    for topic in answer.topics:
        for each in topic.partitions:
            check(each.error_code, f"offset of {topic.name}-{each.partition_index}")


def purge(cluster: Cluster, topics: Iterable[str], position: Position) -> None:
    """Records of repartition topics that have been read, and that nobody else reads."""
    done = {
        TopicPartition(topic, int(each)): offset
        for topic in topics
        for each, offset in position.get(topic, {}).items()
        if offset > 0
    }
    if done:
        with cluster.admin() as admin:
            admin.offsets.delete_before(done)
