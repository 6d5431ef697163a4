"""Delayed delivery in share groups: the header ottla.deliver.at, through the handlers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from data_path_broker import NOW_MS, Client, code, run, until
from share_client import ACCEPT, RELEASE, TOPIC, ShareMember, acquired, configure, queue

from ottla.broker.share import partition_read
from ottla.broker.share.delayed_delivery import DelayedDeliveryConfig, due_times
from ottla.broker.share.partitions import LocalSharePartition
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing.manual_clock import ManualClock

ENABLE = "ottla.share.delayed.delivery.enable"
MAX_MS = "ottla.share.delayed.delivery.max.ms"
MAX_RECORDS = "ottla.share.delayed.delivery.max.records"
FAR_MS = 10**15


def record(due_ms: int | None, *, text: bytes | None = None) -> Record:
    value = text if due_ms is None else b"%d" % due_ms
    headers = [] if value is None else [("ottla.deliver.at", value)]
    return Record(timestamp=NOW_MS, value=b"v", headers=headers)


async def send(client: Client, *due_ms: int | None, codec: int = 0) -> None:
    data = build_batch([record(record_due_ms) for record_due_ms in due_ms], compression=codec)
    assert code(await client.produce(TOPIC, data)) == "NONE"


async def delayed_queue(client: Client, **configs: str) -> ShareMember:
    member = await queue(client)
    await configure(client.broker, "workers", **{ENABLE: "true", **configs})
    return member


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_delayed_record_is_acquired_when_due(tmp_path: Path, codec: int) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        member = await delayed_queue(client)
        await send(client, None, NOW_MS + 500, None, NOW_MS - 1, codec=codec)
        assert await member.acquire() == [(0, 0, 1), (2, 3, 1)]
        assert await member.acquire([(0, 0, ACCEPT), (2, 3, ACCEPT)]) == []
        assert await member.offsets() == {0: (1, 1)}
        waiting = asyncio.ensure_future(member.share_fetch(max_wait=10_000))
        await asyncio.sleep(0)
        clock.advance(499)
        client.broker.shares._expire(clock.now_ms())
        await asyncio.sleep(0.01)
        assert not waiting.done()
        clock.advance(1)
        assert acquired(await waiting) == [(1, 1, 1)]  # the alarm wakes it
        assert await member.say((1, 1, RELEASE)) == "NONE"
        assert await member.acquire() == [(1, 1, 2)]
        assert await member.say((1, 1, ACCEPT)) == "NONE"
        assert await member.offsets() == {0: (4, 0)}

    run(tmp_path, act, clock=clock)


def test_groups_without_delayed_delivery_inspect_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(data: bytes, config: DelayedDeliveryConfig) -> list[tuple[int, int]]:
        raise AssertionError

    monkeypatch.setattr(partition_read, "due_times", never)

    async def act(client: Client) -> None:
        member = await queue(client)
        await send(client, None, NOW_MS + 500)
        assert await member.acquire() == [(0, 1, 1)]

    run(tmp_path, act)


def test_delayed_delivery_survives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()

    async def before(client: Client) -> None:
        member = await delayed_queue(client)
        await send(client, NOW_MS + 1000, None)
        await send(client, None, NOW_MS + 2000, None)
        assert await member.acquire() == [(1, 2, 1), (4, 4, 1)]
        assert await member.say((1, 2, ACCEPT), (4, 4, ACCEPT)) == "NONE"
        await client.broker.crash()

    async def after(client: Client) -> None:
        member = ShareMember(client.broker)
        await member.join()
        assert await member.acquire() == []
        clock.advance(1000)
        await until(lambda: _shared(client).share_partition.fetch_offset() == 0)
        assert await member.acquire() == [(0, 0, 1)]
        clock.advance(1000)
        assert acquired(await member.share_fetch(max_wait=5000)) == [(3, 3, 1)]

    run(tmp_path, before, after, clock=clock)


def test_delayed_records_do_not_fill_the_window_of_records_in_flight(tmp_path: Path) -> None:
    async def act(client: Client) -> None:
        member = await delayed_queue(client, **{"share.partition.max.record.locks": "100"})
        for _ in range(40):
            await send(client, *[NOW_MS + 60_000] * 25)
        await send(client, None)
        assert acquired(await member.share_fetch(max_wait=5000)) == [(1000, 1000, 1)]
        assert await member.acquire([(1000, 1000, ACCEPT)]) == []
        assert await member.offsets() == {0: (0, 1000)}

    run(tmp_path, act)


def test_one_fetch_skips_many_delayed_batches(tmp_path: Path) -> None:
    """More than one turn inspects; the fetch must not sleep until its timeout."""

    async def act(client: Client) -> None:
        member = await delayed_queue(client)
        for _ in range(60):
            await send(client, NOW_MS + 60_000)
        await send(client, None)
        fetch = member.share_fetch(max_wait=60_000, max_records=1, max_bytes=100)
        assert acquired(await asyncio.wait_for(fetch, 60)) == [(60, 60, 1)]

    run(tmp_path, act)


def test_the_number_of_delayed_records_is_limited(tmp_path: Path) -> None:
    clock = ManualClock()

    async def act(client: Client) -> None:
        member = await delayed_queue(client, **{MAX_RECORDS: "3"})
        for number in range(5):
            await send(client, NOW_MS + 1000 * (number + 1))
        await send(client, None)
        assert await member.acquire(max_records=1) == []
        assert _shared(client).share_partition.fetch_offset() is None
        clock.advance(1000)
        await until(lambda: _shared(client).share_partition.fetch_offset() == 0)
        assert await member.acquire(max_records=1) == [(0, 0, 1)]
        clock.advance(3000)
        await until(lambda: _shared(client).share_partition.fetch_offset() == 1)
        assert await member.acquire() == [(1, 2, 1), (3, 3, 1), (5, 5, 1)]

    run(tmp_path, act, clock=clock)


def test_the_delivery_time_header_is_bounded_text() -> None:
    records = [
        record(FAR_MS),
        record(None, text=b"tomorrow"),
        record(None, text=b"-5"),
        record(5),
        Record(timestamp=NOW_MS, headers=[("ottla.deliver.at", b"7"), ("ottla.deliver.at", b"9")]),
        Record(timestamp=NOW_MS, headers=[("ottla.deliver.at", None)]),
        Record(timestamp=NOW_MS, value=b"ottla.deliver.at"),
    ]
    data = build_batch(records, base_offset=10)
    assert due_times(data, DelayedDeliveryConfig(1000)) == [(10, NOW_MS + 1000), (13, 5), (14, 9)]
    damaged = bytearray(data)
    damaged[70:] = bytes(len(data) - 70)
    assert due_times(bytes(damaged), DelayedDeliveryConfig(1000)) == []


def _shared(client: Client) -> LocalSharePartition:
    (shared,) = client.broker.shares._shared.values()
    return shared
