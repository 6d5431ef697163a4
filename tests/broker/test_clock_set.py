"""Setting the machine's clock changes the length of no session and no lock."""

from __future__ import annotations

from pathlib import Path

import pytest
from data_path_broker import Client, run, until
from share_client import queue
from transaction_client import TransactionClient

from ottla.clock import STEP_MS_MIN, WatchedClock
from ottla.errors import ErrorCode
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest

HOUR_MS = 3_600_000
SESSION_MS = 45_000
LOCK_MS = 30_000
NONE = ErrorCode.NONE

both_ways = pytest.mark.parametrize("step_ms", [HOUR_MS, -HOUR_MS])


def test_every_reader_notices_that_the_clock_was_set() -> None:
    clock = ManualClock()
    watched = WatchedClock(clock)
    steps: list[int] = []
    watched.when_set(steps.append)
    clock.advance(HOUR_MS)
    assert watched.now_ms() == clock.now_ms()
    assert steps == []
    for step_ms in (HOUR_MS, -HOUR_MS, STEP_MS_MIN - 1, 1):
        clock.set_by(step_ms)
        assert watched.now_ms() == clock.now_ms()
    assert steps == [HOUR_MS, -HOUR_MS, STEP_MS_MIN]
    assert watched.monotonic_ms() == clock.monotonic_ms()


@both_ways
def test_a_members_session_keeps_its_timeout_when_the_clock_is_set(
    tmp_path: Path, step_ms: int
) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        asker = TransactionClient(client.broker)
        await asker.ask(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g"), 0)
        joining = ConsumerGroupHeartbeatRequest(
            "g", "m", 0, rebalance_timeout=1000, subscribed_topic_names=["t"], topic_partitions=[]
        )
        beat = await asker.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, joining)
        assert beat.error_code == NONE
        groups = client.broker.groups

        async def members() -> int:
            groups._expire(client.broker.clock.now_ms())
            request = ConsumerGroupDescribeRequest(["g"])
            answer = await asker.ask(ApiKey.CONSUMER_GROUP_DESCRIBE, request)
            return len(answer.groups[0].members)

        clock.set_by(step_ms)
        clock.advance(SESSION_MS - 1)
        assert await members() == 1
        clock.advance(1)
        assert await members() == 0

    run(tmp_path, act, clock=clock)


@both_ways
def test_an_open_transaction_keeps_its_timeout_when_the_clock_is_set(
    tmp_path: Path, step_ms: int
) -> None:
    clock = ManualClock()
    look_ms = 10

    async def act(client: Client) -> None:
        await client.create("t")
        producer = TransactionClient(client.broker)
        await producer.find()
        assert await producer.init(timeout_ms=60_000) is NONE
        assert await producer.add(("t", 0)) == [NONE]
        clock.set_by(step_ms)
        clock.advance(60_000)
        client.broker.transactions._expire(client.broker.clock.now_ms())
        assert await producer.state() == "Ongoing"
        clock.advance(2 * look_ms)
        client.broker.transactions._expire(client.broker.clock.now_ms())
        await until(lambda: bool(producer.markers("t", 0)))
        assert await producer.state() == "CompleteAbort"

    settings = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": str(look_ms)}
    run(tmp_path, act, clock=clock, **settings)


@both_ways
def test_a_share_group_lock_keeps_its_duration_when_the_clock_is_set(
    tmp_path: Path, step_ms: int
) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        member = await queue(client)
        await member.send(4)
        assert await member.acquire() == [(0, 3, 1)]
        clock.set_by(step_ms)
        clock.advance(LOCK_MS - 1)
        client.broker.shares._expire(client.broker.clock.now_ms())
        assert await member.acquire() == []
        clock.advance(1)
        client.broker.shares._expire(client.broker.clock.now_ms())
        assert await member.acquire() == [(0, 3, 2)]

    run(tmp_path, act, clock=clock)
