"""A transactional producer on the wire of a cluster: it never waits between two transactions.

Transaction version 2 (KIP-890): Produce v12 adds a partition, EndTxn v5 brings the next epoch. A
request answered with CONCURRENT_TRANSACTIONS is retried, as by clients; every code is recorded.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from ottla.client.protocol.connection import BrokerConnection
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.wire.apis import ApiKey
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

PATIENCE_S = 60.0
AGAIN_S = 0.002
TRANSACTION = 1  # FindCoordinator's key type
NOT_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR)
LOADING = (*NOT_YET, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


@dataclass
class BackToBack:
    """One transactional id and one topic. `codes` counts the answers by the request's name."""

    bootstrap_port: int
    topic: str
    transactional_id: str
    codes: dict[str, Counter[ErrorCode]] = field(default_factory=dict)
    producer_id: int = -1
    epoch: int = -1

    def __post_init__(self) -> None:
        self._lines: dict[int, BrokerConnection] = {}  # by port
        found = self._wait_for_leaders()
        ports = {broker.node_id: broker.port for broker in found.brokers}
        (topic,) = found.topics
        self._topic_id = topic.topic_id
        self.leaders = {
            partition.partition_index: partition.leader_id for partition in topic.partitions
        }
        self._ports = {index: ports[leader] for index, leader in self.leaders.items()}
        self._coordinator = self._find_coordinator()
        self._init()

    def close(self) -> None:
        for line in self._lines.values():
            line.close()

    # -- one transaction

    def produce(self) -> list[str]:
        """Produces one record to each partition, on all brokers at once; returns the values."""
        waiting = sorted(self._ports)
        deadline = time.monotonic() + PATIENCE_S
        while waiting:
            assert time.monotonic() < deadline, self.codes
            waiting = self._produce(waiting)
        return [self._value(index) for index in self._ports]

    def end(self, *, commit: bool) -> list[ErrorCode]:
        """All responses; the last one is that of EndTxn."""
        received: list[ErrorCode] = []
        deadline = time.monotonic() + PATIENCE_S
        while not received or received[-1] is ErrorCode.CONCURRENT_TRANSACTIONS:
            assert time.monotonic() < deadline, self.codes
            if received:
                time.sleep(AGAIN_S)
            request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
            answer = self._coordinator.call(request, ApiKey.END_TXN, EndTxnResponse)
            received.append(self._note("EndTxn", answer.error_code))
        assert received[-1] is ErrorCode.NONE, received
        assert (answer.producer_id, answer.producer_epoch) == (self.producer_id, self.epoch + 1)
        self.epoch = answer.producer_epoch
        return received

    # -- its parts

    def _produce(self, indexes: list[int]) -> list[int]:
        """The partitions whose write must be retried."""
        for index in indexes:
            self._line(self._ports[index]).send(self._request(index), ApiKey.PRODUCE)
        again = []
        for index in indexes:
            answer = self._line(self._ports[index]).receive(ApiKey.PRODUCE, ProduceResponse)
            (partition,) = answer.responses[0].partition_responses
            code = self._note("Produce", partition.error_code)
            assert code in (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS), code
            if code is not ErrorCode.NONE:
                again.append(index)
        return again

    def _value(self, index: int) -> str:
        return f"{self.transactional_id} {self.epoch} {index}"

    def _request(self, index: int) -> ProduceRequest:
        batch = build_batch(
            [Record(key=None, value=self._value(index).encode(), timestamp=1_700_000_000_000)],
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=0,
            transactional=True,
        )
        data = TopicProduceData(
            name=self.topic,
            topic_id=self._topic_id,
            partition_data=[PartitionProduceData(index, batch)],
        )
        return ProduceRequest(self.transactional_id, -1, 30_000, [data])

    def _note(self, request: str, number: int) -> ErrorCode:
        code = ErrorCode(number)
        self.codes.setdefault(request, Counter())[code] += 1
        return code

    # -- the cluster

    def _line(self, port: int) -> BrokerConnection:
        if port not in self._lines:
            self._lines[port] = BrokerConnection(
                "127.0.0.1", port, settings={}, timeout_s=PATIENCE_S
            )
        return self._lines[port]

    def _wait_for_leaders(self) -> MetadataResponse:
        request = MetadataRequest([MetadataRequestTopic(name=self.topic)])
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self._line(self.bootstrap_port)
            found = line.call(request, ApiKey.METADATA, MetadataResponse)
            partitions = found.topics[0].partitions
            if partitions and all(partition.leader_id >= 0 for partition in partitions):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(AGAIN_S)

    def _find_coordinator(self) -> BrokerConnection:
        request = FindCoordinatorRequest(
            key_type=TRANSACTION, coordinator_keys=[self.transactional_id]
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            line = self._line(self.bootstrap_port)
            found = line.call(request, ApiKey.FIND_COORDINATOR, FindCoordinatorResponse)
            (coordinator,) = found.coordinators
            if coordinator.error_code == ErrorCode.NONE:
                return self._line(coordinator.port)
            assert coordinator.error_code in NOT_YET, coordinator
            assert time.monotonic() < deadline, coordinator
            time.sleep(AGAIN_S)

    def _init(self) -> None:
        request = InitProducerIdRequest(self.transactional_id, 60_000)
        deadline = time.monotonic() + PATIENCE_S
        while True:
            answer = self._coordinator.call(
                request, ApiKey.INIT_PRODUCER_ID, InitProducerIdResponse
            )
            if answer.error_code == ErrorCode.NONE:
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
                return
            assert answer.error_code in LOADING, answer
            assert time.monotonic() < deadline, answer
            time.sleep(AGAIN_S)
