"""What a group has committed, of all partitions.

Asked for by hand: librdkafka's admin client (2.16) loses where an offset's metadata ends, and gives
with it whatever lies behind in memory, or fails. What confluent-kafka writes has the NUL of C's
strings at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ottla.client.protocol.connection import check
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.client.protocol.coordinators import KeyType, coordinator_on
from ottla.client.protocol.retries import COORDINATOR_RETRIABLE, LOST_CONNECTION, patiently
from ottla.client.record import TopicPartition
from ottla.client.session import Session
from ottla.wire.apis import ApiKey
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)

NAMES_UNTIL: Final = 9  # after it, topics have ids


@dataclass(slots=True, frozen=True)
class Committed:
    """How far a group has read a partition."""

    offset: int
    leader_epoch: int | None = None
    metadata: str | None = None


def committed_offsets(session: Session, group: str) -> dict[TopicPartition, Committed]:
    """Over lines of its own: an Admin may be kept for long, and brokers come and go."""
    request = OffsetFetchRequest(group, groups=[OffsetFetchRequestGroup(group, topics=None)])

    def ask() -> dict[TopicPartition, Committed]:
        where = session.bootstrap_servers
        with ConnectionPool(where, settings=session.settings, timeout_s=session.timeout_s) as lines:
            line = lines.line(coordinator_on(lines, KeyType.GROUP, group))
            answer = line.call(
                request, ApiKey.OFFSET_FETCH, OffsetFetchResponse, version_max=NAMES_UNTIL
            )
        return _read(answer, group)

    return patiently(session.timeout_s, ask, LOST_CONNECTION | COORDINATOR_RETRIABLE)


def _read(answer: OffsetFetchResponse, name: str) -> dict[TopicPartition, Committed]:
    """Before version 8 one group was asked for, and its topics are the answer."""
    found: dict[TopicPartition, Committed] = {}
    groups: list[OffsetFetchResponseGroup | OffsetFetchResponse] = [*answer.groups]
    for group in groups or [answer]:
        check(group.error_code, "", ApiKey.OFFSET_FETCH, name)
        for topic in group.topics:
            for each in topic.partitions:
                where = f"{topic.name}-{each.partition_index}"
                check(each.error_code, where, ApiKey.OFFSET_FETCH, topic.name)
                if each.committed_offset >= 0:
                    epoch, said = each.committed_leader_epoch, each.metadata
                    found[TopicPartition(topic.name, each.partition_index)] = Committed(
                        each.committed_offset,
                        None if epoch < 0 else epoch,
                        None if said is None else said.removesuffix("\0"),
                    )
    return found
