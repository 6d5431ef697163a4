"""Administration of share groups: offsets, deletion, the share coordinator's APIs and its log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data_path_broker import NOW_MS, Client, batch, code, run
from share_client import ACCEPT, REJECT, TOPIC, ShareMember, configure, queue

from ottla.broker.transaction_markers import TransactionEnd
from ottla.coordinator.share.state_records import STATE_TOPIC, SharePartitionKey
from ottla.errors import ErrorCode
from ottla.records.batch import AppendOrigin
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages import delete_share_group_state as state_delete
from ottla.wire.messages import initialize_share_group_state as state_init
from ottla.wire.messages import read_share_group_state as state_read
from ottla.wire.messages import read_share_group_state_summary as state_summary
from ottla.wire.messages import write_share_group_state as state_write
from ottla.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.delete_groups import DeleteGroupsRequest
from ottla.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.share_group_describe import ShareGroupDescribeRequest

PRUNE = {"share_coordinator_state_topic_num_partitions": "1"}


async def alter(client: Client, *offsets: tuple[int, int], topic: str = TOPIC) -> Any:
    partitions = [AlterShareGroupOffsetsRequestPartition(*offset) for offset in offsets]
    asked = AlterShareGroupOffsetsRequestTopic(topic, partitions)
    request = AlterShareGroupOffsetsRequest("workers", [asked])
    return await client.ask(ApiKey.ALTER_SHARE_GROUP_OFFSETS, request)


async def delete_offsets(client: Client, topic: str = TOPIC) -> Any:
    asked = [DeleteShareGroupOffsetsRequestTopic(topic)]
    request = DeleteShareGroupOffsetsRequest("workers", asked)
    return await client.ask(ApiKey.DELETE_SHARE_GROUP_OFFSETS, request)


async def delete_group(client: Client) -> str:
    answer = await client.ask(ApiKey.DELETE_GROUPS, DeleteGroupsRequest(["workers"]))
    return code(answer.results[0])


def test_offsets_of_an_empty_group_can_be_set(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(6)
        await member.acquire()
        await member.say((0, 5, ACCEPT), epoch=-1)
        assert code(await alter(client, (0, 2))) == "NON_EMPTY_GROUP"
        await member.heartbeat(-1)
        answer = await alter(client, (0, 2), (7, 0))
        assert [code(partition) for partition in answer.responses[0].partitions] == [
            "NONE",
            "UNKNOWN_TOPIC_OR_PARTITION",
        ]
        unknown = await alter(client, (0, 0), topic="unknown")
        assert code(unknown.responses[0].partitions[0]) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert await member.offsets() == {0: (2, 4)}
        again = ShareMember(client.broker)
        await again.join()
        assert await again.acquire() == [(2, 5, 1)]

    run(tmp_path, act)


def test_setting_offsets_creates_the_group(tmp_path: Path) -> None:
    async def before(client: Client) -> None:
        await client.create(TOPIC)
        member = ShareMember(client.broker)
        await member.send(6)
        await member.join("another")  # creates the topics of the coordinators
        await member.heartbeat(-1)
        assert await delete_group(client) == "NONE"
        assert code(await alter(client, (0, 4))) == "NONE"

    async def after(client: Client) -> None:
        member = ShareMember(client.broker)
        assert await member.offsets() == {0: (4, 2)}
        await member.join()
        assert await member.acquire() == [(4, 5, 1)]

    run(tmp_path, before, after)


def test_offsets_of_a_topic_can_be_deleted(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(6)
        await member.acquire()
        await member.say((0, 3, ACCEPT), epoch=-1)
        assert code(await delete_offsets(client)) == "NON_EMPTY_GROUP"
        await member.heartbeat(-1)
        assert code((await delete_offsets(client, "unknown")).responses[0]) == (
            "UNKNOWN_TOPIC_OR_PARTITION"
        )
        assert code((await delete_offsets(client)).responses[0]) == "NONE"
        answer = await delete_offsets(client)
        assert answer.responses[0].error_message == "There is no offset information to delete."
        assert await member.offsets() == {}
        again = ShareMember(client.broker)
        await again.join()
        assert await again.acquire() == [(0, 5, 1)]

    run(tmp_path, act)


def test_a_deleted_group_leaves_nothing_behind(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(2)
        await member.acquire()
        assert await delete_group(client) == "NON_EMPTY_GROUP"
        await member.heartbeat(-1)
        assert await delete_group(client) == "NONE"
        assert not client.broker.shares._shared
        assert all(
            not len(shard) for shard in client.broker.shares.states.coordinator.shards.values()
        )
        assert await delete_group(client) == "GROUP_ID_NOT_FOUND"

    async def after(client: Client) -> None:
        request = ShareGroupDescribeRequest(["workers"], include_authorized_operations=True)
        answer = await client.ask(ApiKey.SHARE_GROUP_DESCRIBE, request)
        assert code(answer.groups[0]) == "GROUP_ID_NOT_FOUND"

    run(tmp_path, act, after)


def test_read_committed_groups_do_not_acquire_aborted_records(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await configure(client.broker, "workers", **{"share.isolation.level": "read_committed"})
        partition = client.broker.partitions.find(TOPIC, 0)
        for producer, commit in ((7, False), (8, True), (9, None)):
            data = batch(
                b"1", b"2", producer_id=producer, producer_epoch=0, base_sequence=0,
                transactional=True,
            )  # fmt: skip
            partition.append(memoryview(bytearray(data)), NOW_MS, origin=AppendOrigin.COORDINATOR)
            if commit is not None:
                end = TransactionEnd(producer, 0, 0, commit, transaction_version=1)
                reply: list[ErrorCode] = []
                client.broker.markers.write(TOPIC, 0, end, now_ms=NOW_MS, callback=reply.append)
                assert reply == [ErrorCode.NONE]
        await member.send(1)
        # 0-1 aborted, 2 its marker, 3-4 committed, 5 its marker, 6-7 undecided, 8 after it
        assert await member.acquire(min_bytes=0) == [(2, 5, 1)]
        assert await member.acquire() == []

    run(tmp_path, act)


def test_records_after_aborted_ones_are_found_at_once(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client, segment_bytes="1048576")
        await configure(client.broker, "workers", **{"share.isolation.level": "read_committed"})
        partition = client.broker.partitions.find(TOPIC, 0)
        for sequence in range(3):
            data = batch(
                b"1" * 2000, producer_id=7, producer_epoch=0, base_sequence=sequence,
                transactional=True,
            )  # fmt: skip
            partition.append(memoryview(bytearray(data)), NOW_MS, origin=AppendOrigin.COORDINATOR)
        end = TransactionEnd(7, 0, 0, commit=False, transaction_version=1)
        client.broker.markers.write(TOPIC, 0, end, now_ms=NOW_MS, callback=lambda code: None)
        await member.send(2)
        # One aborted batch at a time is all that fits into an answer.
        assert await member.acquire(max_bytes=1000, max_wait=60_000) == [(3, 5, 1)]

    run(tmp_path, act)


def test_a_start_offset_beyond_the_end_waits_for_records(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await queue(client)
        await member.heartbeat(-1)
        assert code(await alter(client, (0, 3))) == "NONE"
        await member.join()
        await member.send(2)
        assert await member.acquire() == []
        await member.send(2)
        assert await member.acquire() == [(3, 3, 1)]

    run(tmp_path, act)


def test_the_share_coordinator_answers_other_brokers(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        await queue(client)
        topic_id = client.topic_id(TOPIC)

        async def ask(key: ApiKey, request: Any) -> Any:
            return (await client.ask(key, request)).results[0].partitions[0]

        async def initialize(state_epoch: int, start_offset: int, partition: int = 0) -> Any:
            data = state_init.PartitionData(partition, state_epoch, start_offset)
            topic = state_init.InitializeStateData(topic_id, [data])
            request = state_init.InitializeShareGroupStateRequest("other", [topic])
            return await ask(ApiKey.INITIALIZE_SHARE_GROUP_STATE, request)

        async def write(leader_epoch: int, *batches: state_write.StateBatch) -> str:
            data = state_write.PartitionData(0, 1, leader_epoch, 12, 2, list(batches))
            topic = state_write.WriteStateData(topic_id, [data])
            request = state_write.WriteShareGroupStateRequest("other", [topic])
            return code(await ask(ApiKey.WRITE_SHARE_GROUP_STATE, request))

        async def read(leader_epoch: int) -> Any:
            data = state_read.PartitionData(0, leader_epoch)
            topic = state_read.ReadStateData(topic_id, [data])
            request = state_read.ReadShareGroupStateRequest("other", [topic])
            return await ask(ApiKey.READ_SHARE_GROUP_STATE, request)

        async def summary() -> Any:
            topic = state_summary.ReadStateSummaryData(topic_id, [state_summary.PartitionData(0)])
            request = state_summary.ReadShareGroupStateSummaryRequest("other", [topic])
            return await ask(ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, request)

        async def delete() -> str:
            topic = state_delete.DeleteStateData(topic_id, [state_delete.PartitionData(0)])
            request = state_delete.DeleteShareGroupStateRequest("other", [topic])
            return code(await ask(ApiKey.DELETE_SHARE_GROUP_STATE, request))

        assert code(await read(0)) == "INVALID_REQUEST"
        assert code(await initialize(1, 10)) == "NONE"
        assert code(await initialize(0, 10)) == "FENCED_STATE_EPOCH"
        assert code(await initialize(0, 10, partition=-1)) == "INVALID_REQUEST"
        assert code(await initialize(0, 10, partition=7)) == "UNKNOWN_TOPIC_OR_PARTITION"
        assert code(await read(3)) == "NONE"
        assert await write(3, state_write.StateBatch(13, 14, 2, 1)) == "NONE"
        assert await write(2) == "FENCED_LEADER_EPOCH"
        assert await write(3, state_write.StateBatch(13, 14, 1, 1)) == "INVALID_REQUEST"
        found = await read(3)
        assert (found.start_offset, found.state_epoch) == (12, 1)
        assert found.state_batches == [state_read.StateBatch(13, 14, 2, 1)]
        reply = await summary()
        assert (reply.start_offset, reply.leader_epoch, reply.delivery_complete_count) == (12, 3, 2)
        assert await delete() == "NONE"
        assert (await summary()).start_offset == -1

    run(tmp_path, act)


def test_find_coordinator_finds_the_share_coordinator(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        key = str(SharePartitionKey("workers", bytes(range(16)), 3))
        request = FindCoordinatorRequest(key_type=2, coordinator_keys=[key, "workers", "a:b:c"])
        answer = await client.ask(ApiKey.FIND_COORDINATOR, request)
        assert [code(coordinator) for coordinator in answer.coordinators] == [
            "NONE",
            "INVALID_REQUEST",
            "INVALID_REQUEST",
        ]
        assert STATE_TOPIC in client.broker.image.topics
        answer = await client.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("a", "1"))
        assert ("share.version", 2) in [
            (finalized_feature.name, finalized_feature.max_version_level)
            for finalized_feature in answer.finalized_features
        ]

    run(tmp_path, act)


def test_the_share_coordinator_knows_where_an_emptied_log_ends(tmp_path: Path) -> None:
    """All its records may have been deleted; a snapshot at offset 0 would never be deleted."""
    clock = ManualClock()

    async def before(client: Client) -> None:
        member = await queue(client)
        await member.send(9)
        await member.acquire()
        partition = client.broker.partitions.find(STATE_TOPIC, 0)
        partition.delete_records(partition.log.end_offset, clock.now_ms())
        assert partition.log.start_offset > 0

    async def after(client: Client) -> None:
        (shard,) = client.broker.shares.states.coordinator.all_shards()
        log = client.broker.partitions.find(STATE_TOPIC, 0).log
        assert len(shard) == 0
        assert shard.end_offset == shard.oldest_offset() == log.start_offset == log.end_offset

    run(tmp_path, before, after, clock=clock, **PRUNE)


def test_the_state_log_is_truncated_without_losing_state(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(client: Client) -> None:
        member = await queue(client)
        await member.send(9)
        await member.acquire()
        for offset in range(1, 9):
            assert await member.say((offset, offset, REJECT)) == "NONE"
        partition = client.broker.partitions.find(STATE_TOPIC, 0)
        assert partition.log.start_offset == 0
        client.broker.shares.states._prune_all(clock.now_ms())
        assert partition.log.start_offset > 0

    async def after(client: Client) -> None:
        assert await ShareMember(client.broker).acquire() == [(0, 0, 1)]

    more = {"share_coordinator_snapshot_update_records_per_snapshot": "2", **PRUNE}
    run(tmp_path, before, after, clock=clock, **more)


def test_the_state_log_is_truncated_after_the_interval_only(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(client: Client) -> None:
        states = client.broker.shares.states
        member = await queue(client)
        for number in range(9):
            await member.send(1)
            await member.acquire()
            assert await member.say((number, number, REJECT)) == "NONE"
        log = client.broker.partitions.find(STATE_TOPIC, 0).log
        interval_ms = client.broker.config.share_coordinator_state_topic_prune_interval_ms
        assert states._prune_if_due(clock.now_ms()) == clock.now_ms() + interval_ms
        clock.set_by(86_400_000)  # the clock is set, but no time has passed
        states._prune_if_due(clock.now_ms())
        assert log.start_offset == 0
        clock.advance(interval_ms)
        states._prune_if_due(clock.now_ms())
        assert log.start_offset > 0

    more = {"share_coordinator_snapshot_update_records_per_snapshot": "2", **PRUNE}
    run(tmp_path, before, clock=clock, **more)
