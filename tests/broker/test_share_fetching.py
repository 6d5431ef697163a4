"""Records of a share group through a broker's handlers: acquired, acknowledged, redelivered."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_path_broker import NOW_MS, Client, batch, code, run, until
from share_client import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    TOPIC,
    ShareMember,
    acquired,
    configure,
    queue,
)

from ottla.broker.share import persister
from ottla.broker.stored_batches import read_stored_batches
from ottla.coordinator.records import partition_for
from ottla.coordinator.share.state_records import STATE_TOPIC, SharePartitionKey
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

LOCK_MS = 30_000


def test_records_are_acquired_and_acknowledged(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(5)
        await member.send(5)
        assert await member.acquire() == [(0, 9, 1)]
        assert await member.acquire() == []
        assert await member.say((0, 4, ACCEPT), (5, 9, [1, 2, 3, 0, 1])) == "NONE"
        assert await member.offsets() == {0: (6, 1)}
        assert await member.acquire() == [(6, 6, 2)]
        assert await member.acquire([(6, 6, ACCEPT)]) == []
        assert await member.offsets() == {0: (10, 0)}

    run(tmp_path, act)


def test_members_share_a_partition(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        one = await queue(client)
        two = ShareMember(client.broker, "n")
        joined = await two.join()
        assert joined.assignment is not None
        assert [
            topic_partition.partitions for topic_partition in joined.assignment.topic_partitions
        ] == [[0]]
        for _ in range(4):
            await one.send(5)
        assert await one.acquire(max_records=10) == [(0, 9, 1)]
        assert await two.acquire(max_records=10) == [(10, 19, 1)]
        assert await two.say((0, 9, ACCEPT)) == "INVALID_RECORD_STATE"
        assert await one.say((0, 9, ACCEPT)) == "NONE"

    run(tmp_path, act)


def test_the_record_limit_can_be_strict(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(10)
        assert await member.acquire(max_records=3, share_acquire_mode=1) == [(0, 2, 1)]
        assert await member.acquire(max_records=3) == [(3, 9, 1)]

    run(tmp_path, act)


def test_a_fetch_waits_for_appends_and_released_records(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        one = await queue(client)
        two = ShareMember(client.broker, "n")
        waiting = one.begin_fetch(max_wait=10_000)
        await two.send(3)
        assert acquired(await waiting()) == [(0, 2, 1)]
        waiting = two.begin_fetch(max_wait=10_000)
        assert await one.say((1, 1, RELEASE)) == "NONE"
        assert acquired(await waiting()) == [(1, 1, 2)]
        (shared,) = client.broker.shares._shared.values()
        assert not len(shared.waiting)
        assert not len(shared.partition.waiting)
        assert acquired(await two.begin_fetch(max_wait=1)()) == []

    run(tmp_path, act)


def test_a_lock_expires_unless_it_is_renewed(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(4)
        await member.acquire()
        clock.advance(LOCK_MS - 1)
        assert await member.say((0, 1, RENEW), renew=True) == "NONE"
        assert await member.say((0, 1, RENEW)) == "INVALID_REQUEST"
        clock.advance(1)
        client.broker.shares._expire(clock.now_ms())
        assert await member.acquire() == [(2, 3, 2)]
        assert await member.say((0, 1, ACCEPT)) == "NONE"

    run(tmp_path, act, clock=clock)


def test_the_timer_expires_locks(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        member = await queue(client)
        await configure(client.broker, "workers", **{"share.record.lock.duration.ms": "1000"})
        await member.send(4)
        assert await member.acquire() == [(0, 3, 1)]
        (shared,) = client.broker.shares._shared.values()
        clock.advance(1000)
        await until(lambda: shared.share_partition.fetch_offset() == 0)
        assert await member.acquire() == [(0, 3, 2)]

    run(tmp_path, act, clock=clock, group_share_min_record_lock_duration_ms="1000")


@pytest.mark.parametrize("how", ["fetch", "acknowledge", "disconnect"])
def test_the_end_of_a_session_releases_its_records(tmp_path: Path, how: str) -> None:
    async def act(client: Client) -> None:
        one = await queue(client)
        two = ShareMember(client.broker, "n")
        await one.send(4)
        assert await one.acquire() == [(0, 3, 1)]
        if how == "fetch":
            assert code(await one.share_fetch([(0, 0, ACCEPT)], epoch=-1)) == "NONE"
        elif how == "acknowledge":
            assert await one.say((0, 0, ACCEPT), epoch=-1) == "NONE"
        else:
            assert await one.say((0, 0, ACCEPT)) == "NONE"
            client.broker.disconnected(one._session)
        assert await two.acquire() == [(1, 3, 2)]
        assert await one.say((1, 1, ACCEPT)) == "SHARE_SESSION_NOT_FOUND"

    run(tmp_path, act)


def test_share_session_epochs_are_checked(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        other = ShareMember(client.broker, "n")
        assert await member.say(epoch=0) == "INVALID_SHARE_SESSION_EPOCH"
        assert await member.say(epoch=1) == "SHARE_SESSION_NOT_FOUND"
        assert code(await member.share_fetch(epoch=-1)) == "SHARE_SESSION_NOT_FOUND"
        assert code(await member.share_fetch([(0, 0, ACCEPT)], epoch=0)) == "INVALID_REQUEST"
        assert await member.acquire() == []
        assert code(await member.share_fetch(epoch=7)) == "INVALID_SHARE_SESSION_EPOCH"
        assert code(await other.share_fetch(epoch=0)) == "SHARE_SESSION_LIMIT_REACHED"
        nameless = ShareMember(client.broker, "")
        assert code(await nameless.share_fetch(epoch=0)) == "INVALID_REQUEST"
        renews = await member.share_fetch(is_renew_ack=True, epoch=1)
        assert code(renews) == "INVALID_REQUEST"

    run(tmp_path, act, group_share_max_share_sessions="1")


@pytest.mark.parametrize(
    "said",
    [(0, 1, [9]), (0, 2, [1, 1]), (2, 0, ACCEPT), (0, 0, []), (0, 9, ACCEPT)],
)
def test_invalid_acknowledgements_are_refused(
    tmp_path: Path, said: tuple[int, int, list[int]]
) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(4)
        await member.acquire()
        assert await member.say(said) == "INVALID_REQUEST"
        assert await member.say((0, 1, ACCEPT), (1, 2, ACCEPT)) == "INVALID_REQUEST"
        unknown = await member.say((0, 1, ACCEPT), partition=7)
        assert unknown == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await member.say((0, 3, ACCEPT)) == "NONE"

    run(tmp_path, act)


def test_acknowledgements_survive_a_restart_and_other_records_are_redelivered(
    tmp_path: Path,
) -> None:
    async def before(client: Client) -> None:
        member = await queue(client)
        await member.send(10)
        await member.acquire()
        assert await member.say((0, 1, ACCEPT), (4, 4, REJECT), (6, 6, RELEASE)) == "NONE"

    async def after(client: Client) -> None:
        member = ShareMember(client.broker)
        assert await member.acquire() == [(2, 3, 1), (5, 5, 1), (6, 6, 2), (7, 9, 1)]
        assert await member.offsets() == {0: (2, 7)}
        assert (await member.heartbeat(1)).error_code == ErrorCode.NONE

    run(tmp_path, before, after)


@pytest.mark.parametrize("ask_s_max", [persister.ASK_S_MAX, 0.15])
def test_a_fetch_waits_while_the_only_broker_loads_the_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask_s_max: float
) -> None:
    """Kafka's consumer takes COORDINATOR_NOT_AVAILABLE in a fetch for a bug, and throws."""
    monkeypatch.setattr(persister, "ASK_S_MAX", ask_s_max)

    async def before(client: Client) -> None:
        member = await queue(client)
        await member.send(10)
        await member.acquire()
        assert await member.say((0, 1, ACCEPT)) == "NONE"

    async def after(client: Client) -> None:
        states = client.broker.shares.states
        key = SharePartitionKey("workers", client.topic_id(TOPIC), 0)
        index = partition_for(str(key), states.coordinator.partition_count)
        states.unload(index)
        shard = states.coordinator.begin_load(index, 0)
        member = ShareMember(client.broker)
        assert await member.acquire(max_wait=300) == []
        waiting = member.begin_fetch(max_wait=30_000)
        log = client.broker.partitions.find(STATE_TOPIC, index)
        for batches in read_stored_batches(log, size_max=1 << 20):
            for stored in batches:
                shard.load(stored.records)
        states.finish_load(index, NOW_MS)
        assert acquired(await waiting()) == [(2, 9, 1)]

    run(tmp_path, before, after)


def test_a_group_that_starts_at_the_end_keeps_its_start_offset(tmp_path: Path) -> None:
    """The start offset was stored when the group started; a restart does not move it."""

    async def before(client: Client) -> None:
        await client.create(TOPIC)
        member = ShareMember(client.broker)
        await member.send(3)
        await member.join()
        assert await member.acquire() == []
        await member.send(2)
        assert await member.acquire() == [(3, 4, 1)]

    async def after(client: Client) -> None:
        assert await ShareMember(client.broker).acquire() == [(3, 4, 1)]

    run(tmp_path, before, after)


def test_a_group_can_start_by_duration(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC)
        member = ShareMember(client.broker)
        for minutes in (90, 30, 5):
            data = batch(b"v", timestamp=NOW_MS - minutes * 60_000)
            assert code(await member.produce(TOPIC, data)) == "NONE"
        reset = {"share.auto.offset.reset": "by_duration:PT1H"}
        await configure(client.broker, "workers", **reset)
        await member.join()
        assert await member.acquire() == [(1, 2, 1)]

    run(tmp_path, act)


def test_a_failed_store_fails_the_acknowledgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(3)
        await member.acquire()
        append = Partition.append

        def fail(partition: Partition, *args: object, **more: object) -> object:
            if partition.topic == STATE_TOPIC:
                raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
            return append(partition, *args, **more)  # type: ignore[arg-type]

        monkeypatch.setattr(Partition, "append", fail)
        assert await member.say((0, 2, ACCEPT)) == "COORDINATOR_NOT_AVAILABLE"
        answer = await member.share_fetch([(0, 0, ACCEPT)])
        (reply,) = answer.responses[0].partitions
        assert reply.acknowledge_error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        monkeypatch.undo()
        assert await member.offsets() == {0: (0, 3)}
        assert await member.say((0, 2, ACCEPT)) == "NONE"

    run(tmp_path, act)


def test_deleted_records_are_not_acquired(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(4)
        await member.send(4)
        assert await member.acquire(max_records=2) == [(0, 3, 1)]
        topic = DeleteRecordsTopic(TOPIC, [DeleteRecordsPartition(0, 6)])
        await client.ask(ApiKey.DELETE_RECORDS, DeleteRecordsRequest([topic], timeout=1000))
        assert await member.say((0, 3, ACCEPT)) == "NONE"
        assert await member.acquire() == [(6, 7, 1)]

    run(tmp_path, act)


def test_a_recreated_topic_has_its_own_state(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(4)
        await member.acquire()
        request = DeleteTopicsRequest(topics=[DeleteTopicState(TOPIC)], timeout=1000)
        await client.ask(ApiKey.DELETE_TOPICS, request, 6)
        assert not client.broker.shares._shared
        assert all(
            not len(shard) for shard in client.broker.shares.states.coordinator.shards.values()
        )
        answer = await member.share_fetch()
        assert {code(partition) for partition in answer.responses[0].partitions} == {
            "UNKNOWN_TOPIC_ID"
        }
        await client.create(TOPIC)
        joined = await member.heartbeat(1)
        assert joined.member_epoch > 1
        await member.send(2)
        fresh = ShareMember(client.broker, "fresh")
        assert await fresh.acquire() == [(0, 1, 1)]

    run(tmp_path, act)


def test_partitions_take_turns(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await client.create(TOPIC, 2)
        await configure(client.broker, "workers", **{"share.auto.offset.reset": "earliest"})
        member = ShareMember(client.broker)
        await member.join()
        for index in (0, 1):
            for _ in range(2):
                await member.send(3, index)
        served = []
        for _ in range(4):
            answer = await member.share_fetch(partitions=(0, 1), max_records=1)
            (reply,) = [
                partition
                for partition in answer.responses[0].partitions
                if partition.acquired_records
            ]
            served.append(reply.partition_index)
        assert served == [0, 1, 0, 1]

    run(tmp_path, act)


def test_a_fetch_for_an_unknown_group_is_refused(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        stranger = ShareMember(client.broker, "x", "strangers")
        await member.send(1)
        answer = await stranger.share_fetch()
        (reply,) = answer.responses[0].partitions
        assert code(reply) == "UNKNOWN_SERVER_ERROR"
        assert "initialized" in reply.error_message

    run(tmp_path, act)
