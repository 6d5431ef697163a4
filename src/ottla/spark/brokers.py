"""What a reader asks of brokers, beside who leads: the offsets of partitions, and to be woken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.client.lines import Line
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError
from ottla.spark.cluster import Cluster, check
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

CONSUMER: Final = -1  # who asks: no replica
NO_OFFSET: Final = -1


class Brokers(Cluster):
    """The brokers of one cluster, for reading."""

    def offsets(
        self, times: Mapping[TopicPartition, int], *, read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        """The first offset at or after each time; EARLIEST, LATEST. None: no record is so late."""
        if not times:
            return {}
        return self.patiently(lambda: self._ask_offsets(times, read_committed))

    def wait(
        self, ends: Mapping[TopicPartition, int], wait_ms: int, *, read_committed: bool
    ) -> None:
        """Until there is something after these offsets, but no longer than `wait_ms`.

        One broker can be asked to wait. Several can't at once, and then nobody waits.
        """
        try:
            lines = [self.leader(*each) for each in ends]
            if not lines or any(each is not lines[0] for each in lines):
                return
            topics: dict[str, list[FetchPartition]] = {}
            for each, offset in ends.items():
                topics.setdefault(each.topic, []).append(_end(each.partition, offset))
            request = FetchRequest(
                max_wait=wait_ms,
                min_bytes=1,
                isolation_level=int(read_committed),
                topics=[
                    FetchTopic(name, self.topic(name).id, each) for name, each in topics.items()
                ],
            )
            lines[0].call(request, ApiKey.FETCH, FetchResponse)
        except KafkaError as error:
            self.forget(error)  # whoever asks for offsets next deals with it

    def _ask_offsets(
        self, times: Mapping[TopicPartition, int], read_committed: bool
    ) -> dict[TopicPartition, int | None]:
        groups: dict[int, tuple[Line, dict[str, list[ListOffsetsPartition]]]] = {}
        for each, time_ms in times.items():
            line = self.leader(*each)
            _, topics = groups.setdefault(id(line), (line, {}))
            topics.setdefault(each.topic, []).append(
                ListOffsetsPartition(each.partition, timestamp=time_ms)
            )
        found: dict[TopicPartition, int | None] = {}
        for line, topics in groups.values():
            request = ListOffsetsRequest(
                replica_id=CONSUMER,
                isolation_level=int(read_committed),
                topics=[ListOffsetsTopic(name, parts) for name, parts in topics.items()],
            )
            answer = line.call(request, ApiKey.LIST_OFFSETS, ListOffsetsResponse)
            for topic in answer.topics:
                for part in topic.partitions:
                    where = TopicPartition(topic.name, part.partition_index)
                    check(part.error_code, str(where))
                    found[where] = None if part.offset == NO_OFFSET else part.offset
        return found


def _end(partition: int, offset: int) -> FetchPartition:
    """One batch is the least that a broker sends."""
    return FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1)
