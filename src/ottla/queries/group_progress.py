"""How far an application has come, told to the broker: offsets of a group that has its id.

Spark's checkpoints are what counts. The group is there to be looked at, with all tools that show
the lag of a group; and to be told where to begin: offsets that somebody else committed there, as
kafka-streams-application-reset does, are where an application begins that has no checkpoint. What
we have told ourselves is done; a little more may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

from ottla.client.protocol.cluster_client import GROUP, ClusterClient, check
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError
from ottla.queries.cluster import Cluster
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
class Committed:
    """What the group says: `wished` by somebody else, or `told` by us. A wish may be `taken`: by
    whose first batch has this number."""

    wished: Position = field(default_factory=dict)
    told: Position = field(default_factory=dict)
    taken: Position = field(default_factory=dict)


def committed(cluster: Cluster, application_id: str) -> Committed:
    found = Committed()
    with cluster.admin() as admin:
        try:
            offsets = admin.groups.offsets(application_id)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return found
            raise
    for (topic, partition), each in offsets.items():
        ours = found.told if each.metadata == MARK else found.wished
        ours.setdefault(topic, {})[str(partition)] = each.offset
        _, is_taken, first = (each.metadata or "").partition(TAKEN)
        if is_taken:
            found.taken.setdefault(topic, {})[str(partition)] = int(first)
    return found


def take(cluster: Cluster, application_id: str, wished: Position, first: int) -> None:
    """We begin where somebody wished. As long as nothing is done we would do so again."""
    tell(cluster, application_id, wished, mark=f"{TAKEN}{first}")


def tell(cluster: Cluster, application_id: str, position: Position, *, mark: str = MARK) -> None:
    """What we have done."""
    topics = [
        OffsetCommitRequestTopic(
            topic,
            partitions=[
                OffsetCommitRequestPartition(int(each), offset, committed_metadata=mark)
                for each, offset in partitions.items()
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
