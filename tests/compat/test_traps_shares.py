"""Share groups in raw requests (KIP-932), on either broker."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from compat_raw import RawClient, batch, code

Until = Callable[[Callable[[], object], str], None]
Ack = tuple[int, int, Sequence[int]]  # first offset, last offset, types
GROUP_RESOURCE = 32
ACCEPT, RELEASE, RENEW = [1], [2], [4]


class Queue:
    """A topic of one partition, and a share group that reads it from the beginning."""

    def __init__(self, bootstrap: str, topic: str, group: str, until: Until) -> None:
        self.bootstrap = bootstrap
        self.topic, self.group = topic, group
        self.client = RawClient(bootstrap)
        made = {"name": topic, "num_partitions": 1, "replication_factor": 1}
        (created,) = self.client.call("create_topics", 7, topics=[made], timeout=30_000).topics
        self.topic_id = created.topic_id
        reset = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
        resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": [reset]}
        self.client.call("incremental_alter_configs", 1, resources=[resource])
        until(self._found, "a group coordinator")
        self.member_id = str(uuid.uuid4())
        self.member_epoch = 0
        until(self._joined, "a partition is assigned")

    def _found(self) -> bool:
        answer = self.client.call("find_coordinator", 6, key_type=0, coordinator_keys=[self.group])
        return bool(answer.coordinators[0].error_code == code("none"))

    def _joined(self) -> bool:
        names = None if self.member_epoch else [self.topic]
        answer = self.client.call(
            "share_group_heartbeat", 1, group_id=self.group, member_id=self.member_id,
            member_epoch=self.member_epoch, subscribed_topic_names=names, rack_id=None,
        )  # fmt: skip
        if answer.error_code != code("none"):
            return False  # the coordinator is still loading
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None and answer.assignment.topic_partitions:
            return True
        time.sleep(0.5)
        return False

    def produce(self, count: int) -> None:
        data = batch([b"v"] * count, timestamp=int(time.time() * 1000))
        partition = {"index": 0, "records": data}
        topic = {"topic_id": self.topic_id, "partition_data": [partition]}
        answer = self.client.call("produce", 13, acks=-1, timeout=30_000, topic_data=[topic])
        assert answer.responses[0].partition_responses[0].error_code == code("none")

    def fetch(
        self, member_id: str, epoch: int, *acks: Ack, client: RawClient | None = None, **more: Any
    ) -> Any:
        batches = [_ack(ack) for ack in acks]
        asked = {"partition_index": 0, "acknowledgement_batches": batches}
        values = {
            "max_wait": 500, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 500,
            "batch_size": 500, "share_acquire_mode": 0, **more,
        }  # fmt: skip
        return (client or self.client).call(
            "share_fetch", 2, group_id=self.group, member_id=member_id, share_session_epoch=epoch,
            topics=[{"topic_id": self.topic_id, "partitions": [asked]}], **values,
        )  # fmt: skip

    def take(self, member_id: str, epoch: int, *acks: Ack, **more: Any) -> list[tuple[int, ...]]:
        """The acquired ranges: first offset, last offset, delivery count."""
        answer = self.fetch(member_id, epoch, *acks, **more)
        assert answer.error_code == code("none")
        return [
            (
                acquired_record.first_offset,
                acquired_record.last_offset,
                acquired_record.delivery_count,
            )
            for topic in answer.responses
            for partition in topic.partitions
            for acquired_record in partition.acquired_records
        ]

    def say(self, member_id: str, epoch: int, *acks: Ack, renew: bool = False) -> str:
        asked = {"partition_index": 0, "acknowledgement_batches": [_ack(ack) for ack in acks]}
        topics = [{"topic_id": self.topic_id, "partitions": [asked]}] if acks else []
        answer = self.client.call(
            "share_acknowledge", 2, group_id=self.group, member_id=member_id,
            share_session_epoch=epoch, is_renew_ack=renew, topics=topics,
        )  # fmt: skip
        if answer.error_code != code("none") or not acks:
            return str(answer.error_code.name)
        return str(answer.responses[0].partitions[0].error_code.name)

    def lag(self) -> int:
        asked = [{"group_id": self.group, "topics": None}]
        (group,) = self.client.call("describe_share_group_offsets", 1, groups=asked).groups
        return int(group.topics[0].partitions[0].lag)


def _ack(ack: Ack) -> dict[str, Any]:
    first, last, types = ack
    return {"first_offset": first, "last_offset": last, "acknowledge_types": list(types)}


@pytest.fixture
def queue(bootstrap: str, topic_name: str, group_name: str, until: Until) -> Iterator[Queue]:
    made = Queue(bootstrap, topic_name, group_name, until)
    yield made
    made.client.socket.close()


def test_a_share_session_counts_its_requests(queue: Queue) -> None:
    member = str(uuid.uuid4())
    assert queue.say(member, 0) == "invalid_share_session_epoch"
    assert queue.say(member, 1) == "share_session_not_found"
    assert queue.fetch(member, 3).error_code == code("share_session_not_found")
    assert queue.fetch(member, 0, (0, 0, ACCEPT)).error_code == code("invalid_request")
    assert queue.take(member, 0, max_wait=0) == []
    assert queue.fetch(member, 2).error_code == code("invalid_share_session_epoch")
    assert queue.take(member, 1, max_wait=0) == []
    assert queue.say(member, -1) == "none"
    assert queue.say(member, 2) == "share_session_not_found"


def test_records_are_acknowledged_one_by_one(queue: Queue) -> None:
    member = str(uuid.uuid4())
    queue.take(member, 0, max_wait=0)
    for _ in range(3):
        queue.produce(5)
    assert queue.take(member, 1) == [(0, 14, 1)]
    assert queue.say(member, 2, (0, 4, ACCEPT), (5, 9, [1, 2, 3, 0, 1])) == "none"
    assert queue.lag() == 6
    assert queue.take(member, 3) == [(6, 6, 2)]
    refused = [
        [(14, 20, ACCEPT)], [(10, 11, [9])], [(10, 12, [1, 1])], [(12, 10, ACCEPT)],
        [(10, 10, [])], [(10, 12, ACCEPT), (11, 13, ACCEPT)], [(10, 10, RENEW)],
    ]  # fmt: skip
    for epoch, acks in enumerate(refused, 4):
        assert queue.say(member, epoch, *acks) == "invalid_request", acks
    assert queue.say(member, 11, (10, 10, RENEW), renew=True) == "none"
    assert queue.say(member, 12, (6, 6, ACCEPT), (10, 14, ACCEPT)) == "none"
    assert queue.lag() == 0


def test_a_record_is_with_one_member_at_a_time(queue: Queue, until: Until) -> None:
    one, two = str(uuid.uuid4()), str(uuid.uuid4())
    with RawClient(queue.bootstrap) as other:
        queue.take(one, 0, max_wait=0, client=other)
        queue.produce(3)
        assert queue.take(one, 1, client=other) == [(0, 2, 1)]
        assert queue.take(two, 0) == []
        assert queue.say(two, 1, (0, 0, ACCEPT)) == "invalid_record_state"
    epoch, taken = 2, queue.take(two, 2)
    while not taken and epoch < 20:  # until the broker has noticed that the connection is gone
        epoch += 1
        taken = queue.take(two, epoch)
    assert taken == [(0, 2, 2)]


def test_a_record_that_keeps_failing_is_archived(queue: Queue) -> None:
    member = str(uuid.uuid4())
    queue.take(member, 0, max_wait=0)
    queue.produce(1)
    acks: list[Ack] = []
    counts = []
    for epoch in range(1, 7):
        taken = queue.take(member, epoch, *acks)
        counts += [count for _, _, count in taken]
        acks = [(first, last, RELEASE) for first, last, _ in taken]
    assert counts == [1, 2, 3, 4, 5]
    assert queue.lag() == 0


def test_a_strict_record_limit_is_respected(queue: Queue) -> None:
    member = str(uuid.uuid4())
    queue.take(member, 0, max_wait=0)
    queue.produce(10)
    assert queue.take(member, 1, max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
    assert queue.take(member, 2, max_records=3, share_acquire_mode=1) == [(3, 5, 1)]
