"""Transactions on a real broker: the log, the markers, the timer, and restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transaction_client import TransactionClient, play

from ottla.broker import coordinator_service, stored_batches
from ottla.broker.internal_topic import InternalTopic
from ottla.broker.transaction_markers import MarkerWriter
from ottla.broker.verification import TransactionProducer
from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.coordinator.transactions.transaction import EPOCH_MAX
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_transactions import ListTransactionsRequest

NONE = ErrorCode.NONE


def test_the_topic_is_made_as_kafka_makes_it(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        topic = client.broker.image.topics[TRANSACTIONS_TOPIC]
        assert len(topic.partitions) == 3
        assert topic.configs == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }

    play(tmp_path, act)


def test_commit_writes_a_marker_to_every_partition_of_the_transaction(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        assert await client.init() is NONE
        assert await client.add(("t", 0), ("t", 1)) == [NONE, NONE]
        assert await client.add_offsets("g") is ErrorCode.NONE
        assert await client.state() == "Ongoing"
        assert await client.end(True) is NONE
        assert await client.state() == "CompleteCommit"
        assert client.epoch == 1
        for index in (0, 1):
            assert client.markers("t", index) == [(client.producer_id, 1, True)]

    play(tmp_path, act)


def test_a_group_s_partition_is_marked(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.broker.auto_create(OFFSETS_TOPIC)
        await client.init()
        assert await client.add_offsets("g") is NONE
        assert await client.end(False, version=4) is NONE
        partition = partition_for("g", 3)
        assert client.markers(OFFSETS_TOPIC, partition) == [(client.producer_id, 0, False)]

    play(tmp_path, act)


def test_a_second_producer_fences_the_first_with_the_error_of_its_version(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0))
        second = TransactionClient(client.broker)
        assert await second.init() is ErrorCode.CONCURRENT_TRANSACTIONS
        assert await second.init() is NONE
        assert second.producer_id == client.producer_id
        assert second.epoch == 2  # one for the abort, one for the newcomer
        assert await client.add(("t", 1)) == [ErrorCode.PRODUCER_FENCED]
        assert await client.add(("t", 1), version=1) == [ErrorCode.INVALID_PRODUCER_EPOCH]
        assert await client.add_offsets("g", version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.end(True, version=4) is ErrorCode.PRODUCER_FENCED
        assert await client.end(True, version=1) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert await client.init(resume=True) is ErrorCode.PRODUCER_FENCED
        assert await client.init(resume=True, version=3) is ErrorCode.INVALID_PRODUCER_EPOCH
        assert client.markers("t", 0) == [(client.producer_id, 1, False)]

    play(tmp_path, act)


def test_no_partition_is_added_if_one_does_not_exist(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        codes = await client.add(("t", 0), ("t", 7), ("u", 0))
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert codes == [ErrorCode.OPERATION_NOT_ATTEMPTED, unknown, unknown]
        assert await client.state() == "Empty"

    play(tmp_path, act)


def test_brokers_ask_for_several_transactions_at_once(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        other = TransactionClient(client.broker, "y")
        await client.init()
        await other.init()
        await client.add(("t", 0))

        def transaction(
            client: TransactionClient, verify_only: bool
        ) -> AddPartitionsToTxnTransaction:
            topics = [AddPartitionsToTxnTopic("t", [0, 1])]
            return AddPartitionsToTxnTransaction(
                client.transactional_id, client.producer_id, client.epoch, verify_only, topics
            )

        request = AddPartitionsToTxnRequest(
            transactions=[transaction(client, True), transaction(other, False)]
        )
        response = await client.ask(ApiKey.ADD_PARTITIONS_TO_TXN, request)
        codes = {
            result.transactional_id: [
                ErrorCode(partition.partition_error_code)
                for partition in result.topic_results[0].results_by_partition
            ]
            for result in response.results_by_transaction
        }
        assert codes == {"x": [NONE, ErrorCode.TRANSACTION_ABORTABLE], "y": [NONE, NONE]}

    play(tmp_path, act)


def test_verify_adds_partitions_for_transaction_version_2_only(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        partition = client.broker.partitions.find("t", 0)

        def refused(*, adds: bool, epoch: int = client.epoch) -> dict[tuple[str, int], ErrorCode]:
            writer = TransactionProducer(
                "x", client.producer_id, epoch, adds=adds, knows_abortable=True
            )
            return client.broker.verification.verify(writer, [partition], 1).value

        assert refused(adds=False) == {("t", 0): ErrorCode.TRANSACTION_ABORTABLE}
        assert refused(adds=True) == {}
        assert await client.state() == "Ongoing"
        before = client.record_count()
        assert refused(adds=True) == {}
        assert client.record_count() == before  # it is in there already
        assert refused(adds=False) == {}
        assert refused(adds=True, epoch=9) == {("t", 0): ErrorCode.INVALID_PRODUCER_EPOCH}

    play(tmp_path, act)


def test_a_transaction_that_is_open_too_long_is_aborted(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init(timeout_ms=20)
        await client.add(("t", 0))
        while await client.state() != "CompleteAbort":
            await asyncio.sleep(0.01)
        assert client.markers("t", 0) == [(client.producer_id, 1, False)]
        assert await client.end(True) is ErrorCode.PRODUCER_FENCED
        assert await client.end(False) is NONE
        assert client.epoch == 1

    play(tmp_path, act, transaction_abort_timed_out_transaction_cleanup_interval_ms="50")


def test_the_next_start_completes_decided_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process ends between the decision and its markers: all of them are written."""

    async def decide(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0), ("t", 1))
        with monkeypatch.context() as patch:
            # The first marker is written, then the power is cut.
            write, calls = MarkerWriter.write, iter((True,))

            def write_once(*args: Any, callback: Callable[[ErrorCode], None], **more: Any) -> None:
                if next(calls, False):
                    write(*args, callback=callback, **more)
                else:
                    callback(ErrorCode.KAFKA_STORAGE_ERROR)

            patch.setattr(MarkerWriter, "write", write_once)
            assert await client.end(True) is NONE
        assert await client.state() == "PrepareCommit"
        assert await client.init() is ErrorCode.CONCURRENT_TRANSACTIONS

    async def check(client: TransactionClient) -> None:
        assert await client.state() == "CompleteCommit"
        assert {marker for index in (0, 1) for marker in client.markers("t", index)} == {
            (client.producer_id, 1, True)
        }
        assert await client.init() is NONE
        assert client.epoch == 2

    play(tmp_path, decide, check)


def test_an_open_transaction_goes_on_after_a_restart(tmp_path: Path) -> None:
    async def begin(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 1))

    async def finish(client: TransactionClient) -> None:
        assert await client.state() == "Ongoing"
        assert await client.end(False, version=4) is NONE
        assert client.markers("t", 1) == [(client.producer_id, 0, False)]

    play(tmp_path, begin, finish)


def test_a_broker_that_has_stopped_coordinates_nothing(tmp_path: Path) -> None:
    """Its timers would write to logs that belong to the next broker."""

    async def begin(client: TransactionClient) -> None:
        await client.init(timeout_ms=3000)  # the next broker has started by then
        await client.add(("t", 0))

    async def end(client: TransactionClient) -> None:
        assert await client.end(True) is NONE
        await asyncio.sleep(3.3)  # the first broker would have aborted it meanwhile

    async def look(client: TransactionClient) -> None:
        assert await client.state() == "CompleteCommit"
        assert client.markers("t", 0) == [(client.producer_id, 1, True)]

    interval = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": "50"}
    play(tmp_path, begin, end, look, **interval)


def test_a_failed_marker_write_is_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0))
        with monkeypatch.context() as patch:
            not_now = ErrorCode.NOT_LEADER_OR_FOLLOWER
            patch.setattr(MarkerWriter, "write", lambda *_, callback, **__: callback(not_now))
            assert await client.end(True) is NONE
        assert await client.state() == "PrepareCommit"
        while await client.state() != "CompleteCommit":
            await asyncio.sleep(0.02)
        assert client.markers("t", 0) == [(client.producer_id, 1, True)]

    play(tmp_path, act)


def test_a_deleted_topic_needs_no_marker(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0), ("t", 1))
        await client.broker.controller.delete_topics(["t"])
        assert await client.end(True) is NONE
        assert await client.state() == "CompleteCommit"

    play(tmp_path, act)


def test_an_unstored_decision_has_no_effect(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0))

        def full(*args: object, **more: object) -> None:
            raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)

        with monkeypatch.context() as patch:
            patch.setattr(coordinator_service, "append_records", full)
            assert await client.end(True) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            assert await client.state() == "Ongoing"
            assert client.markers("t", 0) == []
        assert await client.end(True) is NONE
        assert client.markers("t", 0) == [(client.producer_id, 1, True)]

    play(tmp_path, act)


def test_large_logs_are_loaded_between_requests_of_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(InternalTopic, "load_at_once_bytes_max", 0)

    async def write(client: TransactionClient) -> None:
        while await client.init() is not NONE:
            await asyncio.sleep(0)

    async def read(client: TransactionClient) -> None:
        listing = await client.ask(ApiKey.LIST_TRANSACTIONS, ListTransactionsRequest())
        assert listing.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert await client.state() == "COORDINATOR_LOAD_IN_PROGRESS"
        while await client.state() != "Empty":
            await asyncio.sleep(0)

    play(tmp_path, write, read)


def test_the_topic_may_be_deleted_while_it_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(client: TransactionClient) -> None:
        for _ in range(20):
            assert await client.init() is NONE
        monkeypatch.setattr(InternalTopic, "load_at_once_bytes_max", -1)

    async def read(client: TransactionClient) -> None:
        broker = client.broker
        await asyncio.sleep(0)  # the load has begun
        assert await client.state() == "COORDINATOR_LOAD_IN_PROGRESS"
        await broker.controller.delete_topics([TRANSACTIONS_TOPIC])
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(log_dir.offline for log_dir in broker.store.dirs)
        assert await client.state() == "NOT_COORDINATOR"
        await client.find()
        while await client.init() is not NONE:
            await asyncio.sleep(0)

    play(tmp_path, write, read, transaction_state_log_load_buffer_size="100")


def test_a_partition_that_cannot_be_read_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def write(client: TransactionClient) -> None:
        await client.init()
        monkeypatch.setattr(stored_batches, "_read", _damaged)

    async def read(client: TransactionClient) -> None:
        assert await client.state() == "NOT_COORDINATOR"

    play(tmp_path, write, read)


def _damaged(data: bytes, offset: int) -> None:
    raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "damaged")


def test_senseless_requests_are_refused(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        assert await client.init(timeout_ms=0) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await client.init(timeout_ms=900_001) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
        assert await client.add(("t", 0)) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
        assert await client.end(True) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert await client.state() == "TRANSACTIONAL_ID_NOT_FOUND"
        nameless = TransactionClient(client.broker, "")
        assert await nameless.init() is ErrorCode.INVALID_REQUEST
        assert await nameless.end(True) is ErrorCode.INVALID_REQUEST
        assert await nameless.state() == "INVALID_REQUEST"
        half = InitProducerIdRequest("x", 1000, 7, -1)
        response = await client.ask(ApiKey.INIT_PRODUCER_ID, half)
        assert response.error_code == ErrorCode.INVALID_REQUEST

    play(tmp_path, act)


def test_producer_ids_come_from_the_store_when_the_block_is_used_up(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        assert not client.broker.producer_ids.at_hand
        assert await client.init() is NONE
        ids = client.broker.producer_ids
        while ids.at_hand:
            ids.take()
        with pytest.raises(KafkaError):
            ids.take()
        await client.add(("t", 0))
        assert await client.end(True) is NONE
        assert ids.at_hand

    play(tmp_path, act)


def test_a_request_without_a_new_producer_id_does_not_wait_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: TransactionClient) -> None:
        assert await client.init() is NONE
        ids = client.broker.producer_ids
        while ids.at_hand:
            ids.take()

        async def full() -> tuple[int, int]:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for metadata")

        monkeypatch.setattr(ids, "_allocate", full)
        await client.add(("t", 0))
        assert await client.end(True) is NONE
        assert await client.init() is NONE
        for name in ("new", None):  # as in Kafka: retriable
            request = InitProducerIdRequest(name, 60_000)
            response = await client.ask(ApiKey.INIT_PRODUCER_ID, request, 5)
            assert response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    play(tmp_path, act)


def test_a_timeout_that_needs_a_producer_id_gets_one(tmp_path: Path) -> None:
    """Epochs have run out, and the just started broker has no producer ids at hand."""

    async def begin(client: TransactionClient) -> None:
        await client.init(timeout_ms=20)
        transactions = client.broker.transactions.coordinator.shard_of("x").transactions
        transactions["x"] = transactions["x"]._replace(epoch=EPOCH_MAX - 1)
        client.epoch = EPOCH_MAX - 1
        await client.add(("t", 0))
        client.broker.transactions.stop()

    async def wait(client: TransactionClient) -> None:
        assert not client.broker.producer_ids.at_hand
        while await client.state() != "CompleteAbort":
            await asyncio.sleep(0.01)
        assert client.markers("t", 0) == [(client.producer_id, EPOCH_MAX, False)]
        now = client.broker.transactions.coordinator.shard_of("x").transactions["x"]
        assert now.producer_id > client.producer_id
        assert now.epoch == 0

    play(tmp_path, begin, wait, transaction_abort_timed_out_transaction_cleanup_interval_ms="50")
