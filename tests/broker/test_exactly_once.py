"""Consume-process-produce: concurrent transactions with restarts, compared with a model."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from data_path_broker import Client, batch, records_of
from transaction_client import TransactionClient, committed_offset, play

from ottla.coordinator.records import OFFSETS_TOPIC
from ottla.errors import ErrorCode
from ottla.records.batch import AppendOrigin, BatchHeader, check_batches
from ottla.wire.apis import ApiKey
from ottla.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)


def headers_of(data: bytes) -> list[BatchHeader]:
    return check_batches(memoryview(data), batch_size_max=0, origin=AppendOrigin.LEADER)


ACTS = 3
STEPS = 40


class Worker:
    """A producer with occasional transactions, which remembers what it wrote in them."""

    def __init__(self, client: TransactionClient, *, old: bool) -> None:
        self.client = client
        self.old = old  # transaction version 1: partitions are added first, the epoch stays
        self.sequences = [0, 0]
        self.written: list[tuple[int, bytes]] = []
        self.offset: int | None = None

    async def write(self, index: int, value: bytes) -> None:
        client = self.client
        if self.old:
            assert await client.add(("t", index)) == [ErrorCode.NONE]
        data = batch(
            value,
            timestamp=client.broker.clock.now_ms(),
            producer_id=client.producer_id,
            producer_epoch=client.epoch,
            base_sequence=self.sequences[index],
            transactional=True,
        )
        result = await Client(client.broker).produce(
            "t", data, 11 if self.old else 13, index, transactional_id=client.transactional_id
        )
        assert result.error_code == 0, ErrorCode(result.error_code)
        self.sequences[index] += 1
        self.written.append((index, value))

    async def commit_offset(self, offset: int) -> None:
        client = self.client
        if self.old:
            assert await client.add_offsets("g") is ErrorCode.NONE
        topic = TxnOffsetCommitRequestTopic(
            "t", partitions=[TxnOffsetCommitRequestPartition(0, offset)]
        )
        request = TxnOffsetCommitRequest(
            client.transactional_id,
            "g",
            client.producer_id,
            client.epoch,
            generation_id=-1,
            topics=[topic],
        )
        version = 3 if self.old else 5
        response = await client.ask(ApiKey.TXN_OFFSET_COMMIT, request, version)
        assert response.topics[0].partitions[0].error_code == 0
        self.offset = offset

    async def end(self, commit: bool) -> None:
        assert await self.client.end(commit, version=4 if self.old else 5) is ErrorCode.NONE
        if not self.old:
            self.sequences = [0, 0]
        self.written, self.offset = [], None


async def committed(client: Client, index: int) -> set[bytes]:
    """As a consumer reads: what an aborted transaction wrote is skipped until its marker."""
    found: set[bytes] = set()
    offset = 0
    end = client.broker.partitions.find("t", index).last_stable_offset
    while offset < end:
        result = await client.fetch("t", offset, index=index, isolation_level=1)
        headers = headers_of(bytes(result.records))
        aborted = {
            transaction.first_offset: transaction.producer_id
            for transaction in result.aborted_transactions
        }
        skipped: set[int] = set()
        values = {record.offset: record.value for record in records_of(result)}
        for header in headers:
            for first, producer in aborted.items():
                if first <= header.base_offset:
                    skipped.add(producer)
            if header.control:
                for first in [first for first, who in aborted.items() if who == header.producer_id]:
                    if first < header.base_offset:
                        del aborted[first]
                skipped.discard(header.producer_id)
            elif header.producer_id not in skipped:
                value = values[header.base_offset]
                assert value is not None
                found.add(value)
        offset = headers[-1].next_offset
    return found


@pytest.mark.parametrize("seed", range(4))
def test_only_committed_records_are_visible(tmp_path: Path, seed: int) -> None:
    chance = Random(seed)
    workers: list[Worker] = []
    seen: list[set[bytes]] = [set(), set()]
    offset = -1
    order = 0  # of offset commits in the log

    async def begin(client: TransactionClient) -> None:
        await client.broker.auto_create(OFFSETS_TOPIC)
        for number in range(3):
            worker_client = TransactionClient(client.broker, f"id-{number}")
            await worker_client.init()
            workers.append(Worker(worker_client, old=number == 0))

    async def work(client: TransactionClient) -> None:
        nonlocal offset, order
        for worker in workers:
            worker.client.broker = client.broker
        for step in range(STEPS):
            worker = chance.choice(workers)
            action = chance.random()
            if action < 0.5:
                value = b"%s/%d/%d" % (worker.client.transactional_id.encode(), step, order)
                order += 1
                await worker.write(chance.randrange(2), value)
            elif action < 0.7:
                order += 1
                await worker.commit_offset(order)
            elif worker.written or worker.offset is not None:
                commit = chance.random() < 0.6
                if commit:
                    for index, value in worker.written:
                        seen[index].add(value)
                    offset = max(offset, worker.offset or -1)
                await worker.end(commit)
            for index in (0, 1):
                got = await committed(Client(client.broker), index)
                assert got <= seen[index]
            assert await committed_offset(client) == offset

    async def finish(client: TransactionClient) -> None:
        for worker in workers:
            worker.client.broker = client.broker
            if worker.written or worker.offset is not None:
                await worker.end(False)
        for index in (0, 1):
            assert await committed(Client(client.broker), index) == seen[index]
        assert await committed_offset(client, stable=True) == offset

    play(tmp_path, begin, *[work] * ACTS, finish)
