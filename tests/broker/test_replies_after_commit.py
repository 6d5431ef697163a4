"""Coordinators reply only with committed state, however far their memory is ahead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import until
from played_follower import PlayedFollower
from test_group_coordinator_service import Client
from test_group_coordinator_service import run as run_groups
from transaction_client import TransactionClient, play

from ottla.coordinator.records import OFFSETS_TOPIC, partition_for
from ottla.coordinator.transactions.records import TRANSACTIONS_TOPIC
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from ottla.wire.messages.heartbeat import HeartbeatRequest
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup

NONE = ErrorCode.NONE
NOT_HERE = ErrorCode.NOT_COORDINATOR


async def soon(work: Awaitable[Any]) -> asyncio.Task[Any]:
    """Starts the coroutine and runs it as far as it gets by itself."""
    task = asyncio.ensure_future(work)
    for _ in range(5):
        await asyncio.sleep(0)
    return task  # type: ignore[return-value]


def follower_of_group(client: Client, group_id: str = "g") -> PlayedFollower:
    return PlayedFollower(client.broker, OFFSETS_TOPIC, partition_for(group_id, 5))


def elsewhere(group_id: str) -> str:
    """A group id of another partition."""
    names = (f"g{number}" for number in range(100))
    return next(name for name in names if partition_for(name, 5) != partition_for(group_id, 5))


def run(path: Path, act: Callable[[Client, PlayedFollower], Awaitable[None]], **more: str) -> None:
    async def with_follower(client: Client) -> None:
        await act(client, follower_of_group(client))

    run_groups(path, with_follower, **more)


def test_a_commit_is_answered_after_replication(tmp_path: Path) -> None:
    async def act(client: Client, follower: PlayedFollower) -> None:
        commit = await soon(client.commit("g", 7))
        assert not commit.done()
        follower.fetch()
        assert await commit == NONE
        assert await client.committed("g") == {0: 7}

    run(tmp_path, act)


def test_an_offset_is_not_read_before_it_is_committed(tmp_path: Path) -> None:
    async def act(client: Client, follower: PlayedFollower) -> None:
        commit = await soon(client.commit("g", 7))
        read = await soon(client.committed("g"))
        groups = await soon(client.ask(ApiKey.LIST_GROUPS, ListGroupsRequest()))
        described = await soon(client.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(["g"])))
        assert not any(reply.done() for reply in (commit, read, groups, described))
        assert await client.committed(elsewhere("g")) == {}
        follower.fetch()
        assert await read == {0: 7}
        assert [group.group_id for group in (await groups).groups] == ["g"]
        assert (await described).groups[0].group_state == "Empty"
        assert await commit == NONE

    run(tmp_path, act)


@pytest.mark.parametrize("version", [1, 5, 9])
def test_waiting_requests_are_redirected_when_another_broker_takes_over(
    tmp_path: Path, version: int
) -> None:
    async def act(client: Client, follower: PlayedFollower) -> None:
        commit = await soon(client.commit("g", 7))
        request = OffsetFetchRequest("g", topics=None)
        if version == 1:
            request.topics = []
        if version >= 8:
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup("g", topics=None)])
        read = await soon(client.ask(ApiKey.OFFSET_FETCH, request, version))
        described = await soon(client.ask(ApiKey.DESCRIBE_GROUPS, DescribeGroupsRequest(["g"])))
        follower.take_over()
        assert await commit == NOT_HERE
        result = await read
        if version >= 8:
            assert result.groups[0].error_code == NOT_HERE
        elif version > 1:
            assert result.error_code == NOT_HERE
        assert (await described).groups[0].error_code == NOT_HERE
        assert await client.commit("g", 8) == NOT_HERE

    run(tmp_path, act)


def test_a_commit_that_times_out_is_reported_and_may_still_take_effect(tmp_path: Path) -> None:
    async def act(client: Client, follower: PlayedFollower) -> None:
        assert await client.commit("g", 7) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        follower.fetch()
        assert await client.committed("g") == {0: 7}

    run(tmp_path, act, offsets_commit_timeout_ms="30")


def test_a_heartbeat_reveals_nothing_uncommitted(tmp_path: Path) -> None:
    """The member was created by a JoinGroup whose record is not replicated yet."""

    async def act(client: Client, follower: PlayedFollower) -> None:
        join = await soon(client.join("g"))
        follower.fetch()
        member_id, generation = await join
        sync = await soon(client.sync("g", member_id, generation))
        beat = await soon(
            client.ask(ApiKey.HEARTBEAT, HeartbeatRequest("g", generation, member_id))
        )
        assert not sync.done()
        assert not beat.done()
        follower.fetch()
        assert (await sync).assignment == b"all of it"
        assert (await beat).error_code == NONE

    run(tmp_path, act)


def test_a_new_leader_loads_its_whole_log_and_serves_it_once_committed(
    tmp_path: Path,
) -> None:
    async def act(client: Client, follower: PlayedFollower) -> None:
        commit = await soon(client.commit("g", 7))
        follower.take_over()
        assert await commit == NOT_HERE
        follower.give_back()  # the appended records are still in the log
        read = await soon(client.committed("g"))
        assert not read.done()
        follower.fetch()
        assert await read == {0: 7}

    run(tmp_path, act)


# Transactions


def follower_of_transactions(client: TransactionClient) -> PlayedFollower:
    index = partition_for(client.transactional_id, 3)
    return PlayedFollower(client.broker, TRANSACTIONS_TOPIC, index)


def test_a_transaction_continues_after_its_last_step_is_replicated(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        follower = follower_of_transactions(client)
        for step in (client.init(), client.add(("t", 0))):
            task = await soon(step)
            assert not task.done()
            follower.fetch()
            assert await task in (NONE, [NONE])
        end = await soon(client.end(True))
        assert not end.done()
        assert client.markers("t", 0) == []  # not decided until it is committed
        follower.fetch()
        assert await end is NONE
        assert client.markers("t", 0) == [(client.producer_id, 1, True)]
        state = await soon(client.state())
        assert not state.done()  # it is complete in memory only
        follower.fetch()
        assert await state == "CompleteCommit"

    play(tmp_path, act)


def test_the_broker_that_loads_a_decision_writes_its_markers(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0))
        follower = follower_of_transactions(client)
        end = await soon(client.end(True))
        follower.take_over()
        assert await end is NOT_HERE
        assert client.markers("t", 0) == []
        assert await client.state() == "NOT_COORDINATOR"
        follower.give_back()
        await asyncio.sleep(0)
        assert client.markers("t", 0) == []  # loaded, but it may yet be lost
        follower.fetch()
        await until(lambda: client.markers("t", 0) == [(client.producer_id, 1, True)])

    play(tmp_path, act)


def test_a_transaction_is_complete_when_its_markers_are_committed(tmp_path: Path) -> None:
    async def act(client: TransactionClient) -> None:
        await client.init()
        await client.add(("t", 0), ("t", 1))
        follower = PlayedFollower(client.broker, "t", 0)
        assert await client.end(True) is NONE
        assert client.markers("t", 0) == [(client.producer_id, 1, True)]
        assert await client.state() == "PrepareCommit"
        follower.fetch()
        async with asyncio.timeout(60):
            while await client.state() != "CompleteCommit":
                await asyncio.sleep(0.01)
        assert client.markers("t", 1) == [(client.producer_id, 1, True)]

    play(tmp_path, act)
