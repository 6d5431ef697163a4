"""A member of a share group that sends exactly what a test wants, to a broker without sockets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

from data_path_broker import Client, batch, code, records_of

from ottla.broker.broker import Broker
from ottla.wire.apis import ApiKey
from ottla.wire.messages import share_acknowledge as sa
from ottla.wire.messages import share_fetch as sf
from ottla.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)

ACCEPT, RELEASE, REJECT, RENEW = [1], [2], [3], [4]
TOPIC = "jobs"
Ack = tuple[int, int, Sequence[int]]  # first offset, last offset, types


class ShareMember(Client):
    """Reads `TOPIC`; its session's epoch counts by itself."""

    def __init__(self, broker: Broker, member_id: str = "m", group_id: str = "workers") -> None:
        super().__init__(broker)
        self.member_id = member_id
        self.group_id = group_id
        self.epoch = 0

    async def join(self, *topics: str, epoch: int = 0) -> ShareGroupHeartbeatResponse:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self.group_id])
        found = await self.ask(ApiKey.FIND_COORDINATOR, request)
        assert code(found.coordinators[0]) == "NONE"
        return await self.heartbeat(epoch, list(topics or (TOPIC,)))

    async def heartbeat(
        self, epoch: int, topics: list[str] | None = None
    ) -> ShareGroupHeartbeatResponse:
        request = ShareGroupHeartbeatRequest(
            self.group_id, self.member_id, epoch, subscribed_topic_names=topics
        )
        answer: ShareGroupHeartbeatResponse = await self.ask(ApiKey.SHARE_GROUP_HEARTBEAT, request)
        return answer

    def begin_fetch(
        self,
        acks: Iterable[Ack] = (),
        *,
        epoch: int | None = None,
        partitions: Iterable[int] = (0,),
        topic: str = TOPIC,
        **more: Any,
    ) -> Callable[[], Awaitable[Any]]:
        asked = [
            sf.FetchPartition(index, [sf.AcknowledgementBatch(a, b, list(c)) for a, b, c in acks])
            for index in partitions
        ]
        options = {"max_wait": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500, **more}
        request = sf.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            share_session_epoch=self.epoch if epoch is None else epoch,
            topics=[sf.FetchTopic(self.topic_id(topic), asked)],
            **options,
        )
        if epoch is None:
            self.epoch += 1
        return self.begin(ApiKey.SHARE_FETCH, request, 2)

    async def share_fetch(self, acks: Iterable[Ack] = (), **options: Any) -> Any:
        return await self.begin_fetch(acks, **options)()

    async def acquire(self, acks: Iterable[Ack] = (), **options: Any) -> list[tuple[int, int, int]]:
        """The acquired ranges of partition 0: first offset, last offset, delivery count."""
        return acquired(await self.share_fetch(acks, **options))

    async def say(
        self, *acks: Ack, epoch: int | None = None, renew: bool = False, partition: int = 0
    ) -> str:
        batches = [sa.AcknowledgementBatch(first, last, list(types)) for first, last, types in acks]
        topic = sa.AcknowledgeTopic(
            self.topic_id(TOPIC), [sa.AcknowledgePartition(partition, batches)]
        )
        request = sa.ShareAcknowledgeRequest(
            self.group_id,
            self.member_id,
            self.epoch if epoch is None else epoch,
            renew,
            [topic] if batches else [],
        )
        if epoch is None:
            self.epoch += 1
        answer = await self.ask(ApiKey.SHARE_ACKNOWLEDGE, request)
        if answer.error_code or not batches:
            return code(answer)
        return code(answer.responses[0].partitions[0])

    async def offsets(self) -> dict[int, tuple[int, int]]:
        """Partition: start offset and lag."""
        group = DescribeShareGroupOffsetsRequestGroup(self.group_id, None)
        request = DescribeShareGroupOffsetsRequest([group])
        answer = await self.ask(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, request)
        (result,) = answer.groups
        return {
            partition.partition_index: (partition.start_offset, partition.lag)
            for topic in result.topics
            for partition in topic.partitions
        }

    async def send(self, count: int, index: int = 0) -> None:
        values = [b"%d" % number for number in range(count)]
        assert code(await self.produce(TOPIC, batch(*values), index=index)) == "NONE"


def acquired(answer: Any) -> list[tuple[int, int, int]]:
    assert code(answer) == "NONE"
    found = []
    for topic in answer.responses:
        for partition in topic.partitions:
            assert code(partition) == "NONE", partition.error_message
            offsets = {record.offset for record in records_of(partition)}
            for run in partition.acquired_records:
                assert offsets.issuperset(range(run.first_offset, run.last_offset + 1))
                found.append((run.first_offset, run.last_offset, run.delivery_count))
    return found


async def queue(client: Client, **configs: str) -> ShareMember:
    """A topic, and the first member of a group that reads it from the beginning."""
    await client.create(TOPIC, **configs)
    await configure(client.broker, "workers", **{"share.auto.offset.reset": "earliest"})
    member = ShareMember(client.broker)
    joined = await member.join()
    assert code(joined) == "NONE"
    assert joined.assignment is not None
    return member


async def configure(broker: Broker, group_id: str, **configs: str) -> None:
    await broker.settings.alter_group_config(group_id, lambda present: {**present, **configs})
