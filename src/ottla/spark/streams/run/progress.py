"""How far an application has come, told to the broker: offsets of a group that has its id.

Spark's checkpoints are what counts. The group is there to be looked at, with all tools that show
the lag of a group; and to be told where to begin: offsets that somebody else committed there, as
kafka-streams-application-reset does, are where an application begins that has no checkpoint. What
we have told ourselves is done; a little more may be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode
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
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from ottla.wire.primitives import Message

MARK: Final = "ottla-streams"
TAKEN: Final = f"{MARK} began here "
NAMES_UNTIL: Final = 9  # after it, both requests have topic ids
PATIENCE_S: Final = 5.0

R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Committed:
    """What the group says: `wished` by somebody else, or `told` by us. A wish may be `taken`: by
    whose first batch has this number."""

    wished: Position = field(default_factory=dict)
    told: Position = field(default_factory=dict)
    taken: Position = field(default_factory=dict)


def committed(cluster: Cluster, application_id: str) -> Committed:
    """(By hand: librdkafka does not tell the metadata.)"""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(application_id, topics=None)])
    answer = _asked(cluster, application_id, request, ApiKey.OFFSET_FETCH, OffsetFetchResponse)
    found = Committed()
    for group in answer.groups:
        if group.error_code != ErrorCode.GROUP_ID_NOT_FOUND:
            check(group.error_code, f"offsets of {application_id}")
        for topic in group.topics:
            for each in topic.partitions:
                check(each.error_code, f"offset of {topic.name}-{each.partition_index}")
                if each.committed_offset >= 0:
                    ours = found.told if each.metadata == MARK else found.wished
                    place = ours.setdefault(topic.name, {})
                    place[str(each.partition_index)] = each.committed_offset
                    _, is_taken, first = (each.metadata or "").partition(TAKEN)
                    if is_taken:
                        by = found.taken.setdefault(topic.name, {})
                        by[str(each.partition_index)] = int(first)
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
    answer = _asked(cluster, application_id, request, ApiKey.OFFSET_COMMIT, OffsetCommitResponse)
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


def _asked(cluster: Cluster, group: str, request: Message, api_key: ApiKey, response: type[R]) -> R:
    lines = Lines(cluster.bootstrap_servers, cluster.settings, patience_s=PATIENCE_S)
    try:
        return lines.patiently(
            lambda: lines.coordinated(
                GROUP, group, request, api_key, response, version_max=NAMES_UNTIL
            )
        )
    finally:
        lines.close()
