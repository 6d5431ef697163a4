"""Large logs of a coordinator's topic: how much of them is loaded in one turn of the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from data_path_broker import Client, batch, code, run

from ottla.broker.internal_topic import SLICE_BYTES_MAX, SLICE_MS_MAX, InternalTopic
from ottla.clock import Clock
from ottla.coordinator.latest_records import NO_PRODUCER_ID
from ottla.coordinator.result import CoordinatorResult
from ottla.coordinator.runtime import CoordinatorRuntime, CoordinatorShard
from ottla.errors import ErrorCode
from ottla.records.record import Record
from ottla.replica.partitions import Partitions
from ottla.testing.manual_clock import ManualClock

TOPIC = "states"
PARTITIONS = 4


def topic_in_slices(
    service: CountingService, partitions: Partitions, clock: Clock
) -> InternalTopic:
    """Loads no log at once, however small."""
    made = InternalTopic(TOPIC, service, partitions, clock=clock)
    made.load_at_once_bytes_max = -1
    return made


class CountingShard(CoordinatorShard):
    """Counts the records loaded in this turn of the loop."""

    def __init__(self, partition: int, loads: LoadsOfTurn) -> None:
        super().__init__(partition)
        self.loads = loads
        self.records = 0

    def load(self, records: list[Record], producer_id: int = NO_PRODUCER_ID) -> None:  # type: ignore[override]
        self.loads.add(self.partition, records)
        self.records += len(records)

    def load_marker(self, producer_id: int, *, commit: bool) -> None:
        raise AssertionError

    def loaded(self, now_ms: int) -> CoordinatorResult:
        return CoordinatorResult(self.partition)

    @staticmethod
    def error_reply(response: object, code: ErrorCode) -> object:
        return response


class LoadsOfTurn:
    """The records loaded by all shards since the last turn, and the maximum of any turn."""

    def __init__(self, clock: ManualClock, ms_per_load: int) -> None:
        self.clock = clock
        self.ms_per_load = ms_per_load
        self.partitions: set[int] = set()
        self.size = self.took_ms = 0
        self.partitions_max = self.size_max = self.took_max_ms = self.records = 0

    def add(self, partition: int, records: list[Record]) -> None:
        self.partitions.add(partition)
        self.size += sum(len(record.value or b"") for record in records)
        self.took_ms += self.ms_per_load
        self.records += len(records)
        self.clock.advance(self.ms_per_load)
        self.partitions_max = max(self.partitions_max, len(self.partitions))
        self.size_max = max(self.size_max, self.size)
        self.took_max_ms = max(self.took_max_ms, self.took_ms)

    def next_turn(self) -> None:
        self.partitions.clear()
        self.size = self.took_ms = 0


class CountingService(CoordinatorRuntime[CountingShard]):
    """Both the coordinator and its service."""

    shard_class = CountingShard
    load_buffer_size = 5 * 1024 * 1024

    def __init__(self, loads: LoadsOfTurn) -> None:
        super().__init__(PARTITIONS)
        self.loads = loads

    @property
    def coordinator(self) -> CountingService:
        return self

    def new_shard(self, partition: int, leader_epoch: int) -> CountingShard:
        return CountingShard(partition, self.loads)

    def reset(self, partition_count: int) -> None:
        assert partition_count == PARTITIONS

    def finish_load(self, partition: int, now_ms: int) -> None:
        self.end_load(partition, now_ms)


@pytest.mark.parametrize("ms_per_load", [0, 2])
def test_one_slice_of_one_partition_is_loaded_in_a_turn(tmp_path: Path, ms_per_load: int) -> None:
    """Otherwise fifty large partitions block the loop for seconds, each with its own buffer."""

    async def act(client: Client) -> None:
        await client.create(TOPIC, PARTITIONS)
        for index in range(PARTITIONS):
            for _ in range(20):
                data = batch(*[bytes(200)] * 250)
                assert code(await client.produce(TOPIC, data, index=index)) == "NONE"
        clock = ManualClock()
        loads = LoadsOfTurn(clock, ms_per_load)
        service = CountingService(loads)
        topic = topic_in_slices(service, client.broker.partitions, clock)
        topic.apply(client.broker.image, clock.now_ms())
        async with asyncio.timeout(60):
            while len(service.shards) < PARTITIONS:
                await asyncio.sleep(0)
                loads.next_turn()
        topic.stop()
        assert loads.records == PARTITIONS * 20 * 250
        assert loads.partitions_max == 1
        assert loads.size_max <= SLICE_BYTES_MAX
        assert loads.took_max_ms <= SLICE_MS_MAX + ms_per_load

    run(tmp_path, act)


def test_leadership_that_ends_and_returns_during_a_load_begins_another_load(tmp_path: Path) -> None:

    async def act(client: Client) -> None:
        await client.create(TOPIC, PARTITIONS)
        for index in range(PARTITIONS):
            for _ in range(8):
                data = batch(*[bytes(200)] * 250)
                assert code(await client.produce(TOPIC, data, index=index)) == "NONE"
        clock, image, partitions = ManualClock(), client.broker.image, client.broker.partitions
        service = CountingService(LoadsOfTurn(clock, 0))
        topic = topic_in_slices(service, partitions, clock)
        topic.apply(image, clock.now_ms())
        async with asyncio.timeout(60):
            while not service.shards:
                await asyncio.sleep(0)
            await asyncio.sleep(0)  # one partition is loaded, the next one in part
            unloaded = list(service.all_shards())
            partitions.fence(clock.now_ms())
            topic.apply(image, clock.now_ms())
            assert not list(service.all_shards())
            partitions.unfence(clock.now_ms())
            topic.apply(image, clock.now_ms())
            while len(service.shards) < PARTITIONS:
                await asyncio.sleep(0)
        loaded = list(service.all_shards())
        topic.stop()
        assert len(unloaded) == PARTITIONS
        assert not set(unloaded) & set(loaded)
        assert [shard.records for shard in loaded] == [8 * 250] * PARTITIONS
        assert sum(shard.records for shard in unloaded) < 2 * 8 * 250

    run(tmp_path, act)


def test_a_partition_that_fails_to_load_does_not_block_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:

    async def act(client: Client) -> None:
        await client.create(TOPIC, PARTITIONS)
        clock = ManualClock()
        service = CountingService(LoadsOfTurn(clock, 0))

        def finish_load(partition: int, now_ms: int) -> None:
            assert partition != 1, "a bug"
            service.end_load(partition, now_ms)

        monkeypatch.setattr(service, "finish_load", finish_load)
        topic = topic_in_slices(service, client.broker.partitions, clock)
        topic.apply(client.broker.image, clock.now_ms())
        async with asyncio.timeout(60):
            while len(service.shards) < PARTITIONS - 1:
                await asyncio.sleep(0)
        assert set(service.shards) == {0, 2, 3}
        topic.stop()

    run(tmp_path, act)
    assert "Failed to read states-1: a bug" in caplog.text
