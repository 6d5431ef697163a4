"""The first write of a transaction waits for its coordinator, and may then be too late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from data_path_broker import records_of, until
from played_follower import PlayedFollower
from test_transactional_produce import Producer
from transaction_client import TransactionClient, play

from ottla.broker.transaction_markers import TransactionEnd
from ottla.coordinator.records import partition_for
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode


def follower_of(client: TransactionClient) -> PlayedFollower:
    index = partition_for(client.transactional_id, 3)
    return PlayedFollower(client.broker, TRANSACTIONS_TOPIC, index)


async def begun(client: TransactionClient) -> tuple[PlayedFollower, asyncio.Task[str]]:
    """A write that waits for the coordinator's replicas."""
    await client.init()
    follower = follower_of(client)
    write = asyncio.create_task(Producer(client).write(b"a"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not write.done()
    assert client.broker.partitions.find("t", 0).log.end_offset == 0
    return follower, write


def test_nothing_is_appended_before_the_partition_is_in_the_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        follower, write = await begun(client)
        follower.fetch()
        assert await write == "NONE"
        assert client.broker.partitions.find("t", 0).log.end_offset == 1
        assert not client.broker.verification._guards

    play(tmp_path, act)


def test_later_batches_of_the_client_wait_too(tmp_path: Path) -> None:
    """After the first write the transaction is known: the next write asks no coordinator."""

    async def act(client: TransactionClient) -> None:
        await client.init()
        follower, producer = follower_of(client), Producer(client)
        held: list[bool] = []
        producer.data._session.hold = held.append
        write = asyncio.create_task(producer.write(b"a"))
        await until(lambda: held == [True])
        follower.fetch()
        assert await write == "NONE"
        assert held == [True, False]
        assert await producer.write(b"b") == "NONE"
        assert held == [True, False]

    play(tmp_path, act)


def test_the_records_survive_the_reuse_of_their_buffer(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        follower, producer = follower_of(client), Producer(client)
        held: list[bool] = []
        producer.data._session.hold = held.append
        write = asyncio.create_task(producer.write(b"a"))
        await until(lambda: held == [True])
        buffer = producer.data._wire.get_buffer(1)
        buffer[:] = bytes(len(buffer))
        follower.fetch()
        assert await write == "NONE"
        assert [record.value for record in records_of(await producer.data.fetch("t", 0))] == [b"a"]

    play(tmp_path, act)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_a_marker_before_the_answer_invalidates_it(
    tmp_path: Path, commit: bool, version: int
) -> None:
    """Otherwise the write would open a transaction that never ends."""

    async def act(client: TransactionClient) -> None:
        follower, write = await begun(client)
        epoch = client.epoch + (version == 2)  # a marker of version 2 has the epoch after
        end = TransactionEnd(client.producer_id, epoch, 0, commit, transaction_version=version)
        client.broker.markers.write("t", 0, end, now_ms=1, callback=lambda code: None)
        follower.fetch()
        assert await write == "INVALID_TXN_STATE"
        partition = client.broker.partitions.find("t", 0)
        assert partition.last_stable_offset == partition.log.end_offset == 1

    play(tmp_path, act)


@pytest.mark.parametrize("commit", [True, False])
def test_the_marker_of_the_previous_transaction_keeps_the_answer_valid(
    tmp_path: Path, commit: bool
) -> None:
    """It has the epoch of the new transaction, whose first write came before it."""

    async def act(client: TransactionClient) -> None:
        follower, write = await begun(client)
        end = TransactionEnd(client.producer_id, client.epoch, 0, commit, transaction_version=2)
        client.broker.markers.write("t", 0, end, now_ms=1, callback=lambda code: None)
        follower.fetch()
        assert await write == "NONE"
        partition = client.broker.partitions.find("t", 0)
        assert partition.log.end_offset == 2
        assert partition.last_stable_offset == 1  # open, from the write on
        assert not client.broker.verification._guards

    play(tmp_path, act)


def test_a_partition_that_moved_meanwhile_is_not_written_to(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        follower, write = await begun(client)
        data = PlayedFollower(client.broker, "t", 0)
        data.take_over()
        data.give_back()
        follower.fetch()
        assert await write == "NOT_LEADER_OR_FOLLOWER"
        assert data.partition.log.end_offset == 0

    play(tmp_path, act)


def test_a_lost_coordinator_is_asked_again(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        follower, write = await begun(client)
        follower.take_over()
        assert await write == "NOT_ENOUGH_REPLICAS"  # which producers retry
        assert client.broker.partitions.find("t", 0).log.end_offset == 0

    play(tmp_path, act)


async def decided(client: TransactionClient) -> tuple[list[PlayedFollower], Producer]:
    """A transaction whose commit is decided and answered; its marker waits for a follower."""
    await client.init()
    producer = Producer(client)
    assert await producer.write(b"a") == "NONE"
    follower = PlayedFollower(client.broker, "t", 0)
    assert await client.end(commit=True) is ErrorCode.NONE
    return [follower, follower_of(client)], producer


def test_a_write_waits_for_the_previous_transaction_to_complete(tmp_path: Path) -> None:
    """KAFKA-18575: the client's own back-off is longer than markers take."""

    async def act(client: TransactionClient) -> None:
        followers, producer = await decided(client)
        write = asyncio.create_task(producer.write(b"b"))
        await asyncio.sleep(0.05)
        assert not write.done()
        while not write.done():
            for follower in followers:
                follower.fetch()
            await asyncio.sleep(0.001)
        assert await write == "NONE"
        assert not client.broker.verification._guards

    play(tmp_path, act, add_partitions_to_txn_retry_backoff_max_ms="30000")


def test_a_write_waits_no_longer_than_allowed(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        _, producer = await decided(client)
        assert await producer.write(b"b") == "CONCURRENT_TRANSACTIONS"

    play(tmp_path, act, add_partitions_to_txn_retry_backoff_max_ms="0")
