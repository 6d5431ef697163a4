"""Coordinators on three brokers, which send requests to each other."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client import Producer, TopicPartition
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.share_groups import ShareGroupAdmin, ShareOffset
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.coordinator.share.state_records import STATE_TOPIC, SharePartitionKey
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing import LocalCluster
from ottla.wire.apis import ApiKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.wire.peer import Peer

PATIENCE_S = 60.0
COUNT = 6  # partitions of each topic, the coordinators' topics too: two for each broker
SPREAD = {
    "offsets.topic.num.partitions": str(COUNT),
    "transaction.state.log.num.partitions": str(COUNT),
    "share.coordinator.state.topic.num.partitions": str(COUNT),
}
BROKERS = (0, 1, 2)


@pytest.fixture(params=[1, 3], ids=["one replica", "three replicas"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config=SPREAD) as cluster:
        for topic in ("t", OFFSETS_TOPIC, TRANSACTIONS_TOPIC, STATE_TOPIC):
            cluster.create_topic(topic, COUNT, replication_factor=request.param)
        yield cluster


def leader_of(cluster: LocalCluster, topic: str, index: int) -> int:
    return cluster.call(lambda: cluster.broker(0).image.topics[topic].partitions[index].leader)


def name_led_by(cluster: LocalCluster, topic: str, broker_id: int) -> str:
    """A group id or transactional id whose coordinator is this broker."""
    names = (f"name-{number}" for number in range(1000))
    return next(
        name for name in names if leader_of(cluster, topic, partition_for(name, COUNT)) == broker_id
    )


def read_committed(cluster: LocalCluster, count: int) -> list[str]:
    consumer = cluster.consumer(value=str, settings={"isolation.level": "read_committed"})
    consumer.assign({TopicPartition("t", partition): 0 for partition in range(COUNT)})
    return sorted(record.value for record in consumer.take(count, PATIENCE_S))


def give_up_after(producer: Producer[Any, Any]) -> None:
    for index in range(COUNT):
        producer.send("t", "dropped", partition=index).result(PATIENCE_S)
    raise ZeroDivisionError


def test_a_transaction_ends_in_partitions_of_every_broker(cluster: LocalCluster) -> None:
    for coordinator in BROKERS:
        name = name_led_by(cluster, TRANSACTIONS_TOPIC, coordinator)
        producer = cluster.producer(delivery="exactly_once", transactional_id=name, value=str)
        with producer.transaction():
            for index in range(COUNT):
                producer.send("t", f"kept {coordinator} {index}", partition=index)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            give_up_after(producer)
    expected = [f"kept {broker_id} {index}" for broker_id in BROKERS for index in range(COUNT)]
    assert read_committed(cluster, len(expected)) == sorted(expected)


def test_a_transaction_commits_the_offsets_of_any_group(cluster: LocalCluster) -> None:
    with cluster.producer(value=str) as source:
        cluster.create_topic("source", partitions=COUNT)
        for index in range(COUNT):
            source.send("source", str(index), partition=index).result(PATIENCE_S)
    for coordinator in BROKERS:
        group = name_led_by(cluster, OFFSETS_TOPIC, coordinator)
        name = name_led_by(cluster, TRANSACTIONS_TOPIC, (coordinator + 1) % 3)
        producer = cluster.producer(delivery="exactly_once", transactional_id=name, value=str)
        consumer = cluster.consumer("source", group=group, value=str, delivery="exactly_once")
        with producer.transaction(consumer):
            for record in consumer.take(COUNT, PATIENCE_S):
                producer.send("t", f"{coordinator} {record.value}", partition=0)
        places = [TopicPartition("source", index) for index in range(COUNT)]
        assert consumer.committed(places) == dict.fromkeys(places, 1)
    expected = sorted(f"{broker_id} {index}" for broker_id in BROKERS for index in range(COUNT))
    assert read_committed(cluster, len(expected)) == expected


class Connection:
    """A producer of transaction version 2 (KIP-890): partitions are added by being written to."""

    def __init__(self, cluster: LocalCluster, broker_id: int) -> None:
        self._line = BrokerConnection(
            "127.0.0.1", cluster.port_of(broker_id), settings={}, timeout_s=PATIENCE_S
        )

    def init(self, name: str) -> InitProducerIdResponse:
        request = InitProducerIdRequest(name, 60_000)
        return self._line.call(request, ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse)

    def end(self, name: str, producer_id: int, epoch: int) -> EndTxnResponse:
        request = EndTxnRequest(name, producer_id, epoch, True)
        return self._line.call(request, ApiKey.END_TXN, EndTxnResponse)

    def produce(
        self, name: str, topic_id: bytes, index: int, producer_id: int, epoch: int, sequence: int
    ) -> ErrorCode:
        batch = transactional_batch(producer_id, epoch, sequence)
        data = TopicProduceData(
            topic_id=topic_id, partition_data=[PartitionProduceData(index, batch)]
        )
        request = ProduceRequest(name, -1, 10_000, [data])
        response = self._line.call(request, ApiKey.PRODUCE, ProduceResponse)
        return ErrorCode(response.responses[0].partition_responses[0].error_code)

    def close(self) -> None:
        self._line.close()


def transactional_batch(producer_id: int, epoch: int, sequence: int) -> bytes:
    return build_batch(
        [Record(key=None, value=str(sequence).encode(), timestamp=1)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def test_a_remote_coordinator_adds_the_first_write(
    cluster: LocalCluster,
) -> None:
    topic_id = cluster.call(lambda: cluster.broker(0).image.topics["t"].id)
    name = name_led_by(cluster, TRANSACTIONS_TOPIC, 0)
    index = next(partition for partition in range(COUNT) if leader_of(cluster, "t", partition) == 2)
    coordinator, leader = Connection(cluster, 0), Connection(cluster, 2)
    try:
        producer = coordinator.init(name)
        who = (producer.producer_id, producer.producer_epoch)
        for sequence in range(3):
            code = leader.produce(name, topic_id, index, *who, sequence)
            assert code is ErrorCode.NONE
        ended = coordinator.end(name, *who)
        assert ended.error_code == 0
        assert ended.producer_epoch == who[1] + 1
        assert read_committed(cluster, 3) == ["0", "1", "2"]
        late = ErrorCode.CONCURRENT_TRANSACTIONS  # until the coordinator knows of all the markers
        deadline = time.monotonic() + PATIENCE_S
        while late is ErrorCode.CONCURRENT_TRANSACTIONS:
            assert time.monotonic() < deadline
            late = leader.produce(name, topic_id, index, *who, 3)  # of what has ended
        assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    finally:
        coordinator.close()
        leader.close()


def test_batches_sent_during_verification_keep_their_order(
    cluster: LocalCluster,
) -> None:
    """Five batches at once: the first asks the coordinator, and the others must not overtake it."""
    topic_id = cluster.call(lambda: cluster.broker(0).image.topics["t"].id)
    name = name_led_by(cluster, TRANSACTIONS_TOPIC, 0)
    index = next(partition for partition in range(COUNT) if leader_of(cluster, "t", partition) == 1)
    coordinator = Connection(cluster, 0)
    producer = coordinator.init(name)
    who = (producer.producer_id, producer.producer_epoch)
    peer, requests = Peer(), bytearray()
    for sequence in range(5):
        batch = transactional_batch(*who, sequence)
        data = TopicProduceData(
            topic_id=topic_id, partition_data=[PartitionProduceData(index, batch)]
        )
        request = ProduceRequest(name, -1, 10_000, [data])
        for part in peer.request(request, ApiKey.PRODUCE, 13, "test"):
            assert isinstance(part, bytes | bytearray)
            requests += part
    codes = []
    with socket.create_connection(("127.0.0.1", cluster.port_of(1)), PATIENCE_S) as line:
        line.sendall(requests)
        while len(codes) < 5:
            peer.receive_data(line.recv(65536))
            while (response := peer.next_response()) is not None:
                assert isinstance(response.body, ProduceResponse)
                answer = response.body.responses[0].partition_responses[0]
                codes.append(ErrorCode(answer.error_code))
    assert codes == [ErrorCode.NONE] * 5
    assert coordinator.end(name, *who).error_code == 0
    coordinator.close()
    assert read_committed(cluster, 5) == ["0", "1", "2", "3", "4"]


def group_kept_elsewhere(cluster: LocalCluster) -> str:
    """A share group whose state is kept by other brokers than the leaders of topic t."""
    topic_id = cluster.call(lambda: cluster.broker(0).image.topics["t"].id)
    leaders = [leader_of(cluster, "t", index) for index in range(COUNT)]
    for group in (f"workers-{number}" for number in range(100)):
        keys = [str(SharePartitionKey(group, topic_id, index)) for index in range(COUNT)]
        keepers = [leader_of(cluster, STATE_TOPIC, partition_for(key, COUNT)) for key in keys]
        if all(keeper != leader for keeper, leader in zip(keepers, leaders, strict=True)):
            return group
    raise AssertionError("there is no such group")


def test_any_broker_can_hold_the_state_of_a_share_group(cluster: LocalCluster) -> None:
    group = group_kept_elsewhere(cluster)
    with cluster.producer(value=str) as producer:
        for index in range(COUNT):
            for number in range(3):
                producer.send("t", f"{index} {number}", partition=index).result(PATIENCE_S)
    consumer = cluster.share_consumer("t", group=group, value=str)
    taken = sorted(next(iter(consumer)).value for _ in range(3 * COUNT))
    assert taken == [f"{index} {number}" for index in range(COUNT) for number in range(3)]
    consumer.commit()
    consumer.close()
    with cluster.admin() as admin:
        shares = admin.shares
        assert starts(shares, group) == [(3, 0)] * COUNT
        places = [TopicPartition("t", index) for index in range(COUNT)]
        altered = shares.alter_offsets(group, dict.fromkeys(places, 1))
        assert set(altered.values()) == {None}
        consumer = cluster.share_consumer("t", group=group, value=str)
        again = {next(iter(consumer)).value for _ in range(2 * COUNT)}
        assert again == {f"{index} {number}" for index in range(COUNT) for number in (1, 2)}
        consumer.commit()
        consumer.close()
        assert starts(shares, group) == [(3, 0)] * COUNT
        assert shares.delete_offsets(group, ["t"]) == {"t": None}
        assert shares.offsets(group) == {}
        assert shares.delete(group) == {group: None}


def starts(shares: ShareGroupAdmin, group: str) -> list[tuple[int | None, int | None]]:
    found = []
    for offset in shares.offsets(group).values():
        assert isinstance(offset, ShareOffset)
        found.append((offset.start_offset, offset.lag))
    return found
