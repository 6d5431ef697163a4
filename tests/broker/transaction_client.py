"""Transactions on a real broker, without sockets: requests pass through their version's bytes."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.broker.client_session import ClientSession
from ottla.broker.dispatch import ROUTES
from ottla.broker.request_context import RequestContext
from ottla.broker.stored_batches import read_stored_batches
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode
from ottla.wire.apis import APIS, ApiKey
from ottla.wire.fields import Writer
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.describe_transactions import DescribeTransactionsRequest
from ottla.wire.messages.end_txn import EndTxnRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)

SETTINGS = {"offsets.topic.num.partitions": "3", "transaction.state.log.num.partitions": "3"}


class TransactionClient:
    """The requests of a producer, one at a time. `version` is that of EndTxn."""

    def __init__(self, broker: Broker, transactional_id: str = "x") -> None:
        self.broker = broker
        self.transactional_id = transactional_id
        self.session = ClientSession(listener="PLAINTEXT", client_host="127.0.0.1", client_port=1)
        self.producer_id = -1
        self.epoch = -1

    async def ask(self, key: ApiKey, request: Any, version: int | None = None) -> Any:
        route, api = ROUTES[key], APIS[key]
        version = route.version_max if version is None else version
        now_ms = self.broker.clock.now_ms()
        context = RequestContext(self.broker, self.session, version, "client", now_ms)
        answer = route.handle(context, through_bytes(request, api.request, version))
        if inspect.isawaitable(answer):
            answer = await answer
        return through_bytes(answer, api.response, version)

    async def find(self) -> None:
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[self.transactional_id])
        found = await self.ask(ApiKey.FIND_COORDINATOR, request)
        assert found.coordinators[0].error_code == 0

    async def init(
        self, *, timeout_ms: int = 60_000, resume: bool = False, version: int = 5
    ) -> ErrorCode:
        request = InitProducerIdRequest(self.transactional_id, timeout_ms)
        if resume:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        response = await self.ask(ApiKey.INIT_PRODUCER_ID, request, version)
        if response.error_code == 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    async def add(self, *partitions: tuple[str, int], version: int = 3) -> list[ErrorCode]:
        topics = [AddPartitionsToTxnTopic(topic, [index]) for topic, index in partitions]
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=topics,
        )
        response = await self.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request, version)
        return [
            ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]

    async def add_offsets(self, group_id: str, version: int = 4) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            self.transactional_id, self.producer_id, self.epoch, group_id
        )
        response = await self.ask(ApiKey.ADD_OFFSETS_TO_TXN, request, version)
        return ErrorCode(response.error_code)

    async def end(self, commit: bool, version: int = 5) -> ErrorCode:
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, commit)
        response = await self.ask(ApiKey.END_TXN, request, version)
        if response.error_code == 0 and version >= 5:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return ErrorCode(response.error_code)

    async def state(self) -> str:
        request = DescribeTransactionsRequest([self.transactional_id])
        response = await self.ask(ApiKey.DESCRIBE_TRANSACTIONS, request)
        shown = response.transaction_states[0]
        if shown.error_code:
            return ErrorCode(shown.error_code).name
        return str(shown.transaction_state)

    def markers(self, topic: str, index: int) -> list[tuple[int, int, bool]]:
        """Producer id, epoch and decision of every marker in a partition."""
        partition = self.broker.partitions.find(topic, index)
        return [
            (batch.header.producer_id, batch.header.producer_epoch, batch.marker.commit)
            for batches in read_stored_batches(partition, size_max=1_000_000)
            for batch in batches
            if batch.marker is not None
        ]

    def record_count(self) -> int:
        """The number of records in `__transaction_state`."""
        partitions = self.broker.partitions.of_topic(TRANSACTIONS_TOPIC).values()
        return sum(partition.log.end_offset for partition in partitions)


async def committed_offset(
    client: TransactionClient, *, stable: bool = False, version: int = 9
) -> int | ErrorCode:
    """Of group g in t-0; the code where there is one. `stable` requires that it is decided."""
    if version >= 8:
        topics = [OffsetFetchRequestTopics("t", partition_indexes=[0])]
        group = OffsetFetchRequestGroup("g", topics=topics, member_id=None, member_epoch=-1)
        request = OffsetFetchRequest(groups=[group], require_stable=stable)
        response = await client.ask(ApiKey.OFFSET_FETCH, request, version)
        (answer,) = response.groups[0].topics[0].partitions
    else:
        asked = [OffsetFetchRequestTopic("t", [0])]
        request = OffsetFetchRequest("g", asked, require_stable=stable)
        response = await client.ask(ApiKey.OFFSET_FETCH, request, version)
        (answer,) = response.topics[0].partitions
    return ErrorCode(answer.error_code) if answer.error_code else int(answer.committed_offset)


def through_bytes(message: Any, kind: Any, version: int) -> Any:
    writer = Writer()
    message.write(writer, version)
    data = bytearray().join(bytes(part) for part in writer.finish())  # type: ignore[arg-type]
    decoded, end = kind.read(memoryview(data), 0, version)
    assert end == len(data)
    return decoded


def play(path: Path, *acts: Callable[[TransactionClient], Awaitable[None]], **more: str) -> None:
    """Runs the acts one after another; the broker restarts between them."""

    async def run() -> None:
        properties = {**SETTINGS, **{key.replace("_", "."): value for key, value in more.items()}}
        client: TransactionClient | None = None
        for act in acts:
            listeners = {"log.dirs": str(path), "listeners": "PLAINTEXT://127.0.0.1:0"}
            broker = Broker(ServerConfig({**listeners, **properties}))
            await broker.start()
            try:
                if client is None:
                    await broker.controller.create_topics([TopicSpec("t", partition_count=2)])
                    client = TransactionClient(broker)
                    await client.find()
                client.broker = broker
                await act(client)
            finally:
                await broker.stop()

    asyncio.run(asyncio.wait_for(run(), 60))
