"""Quotas: which limit applies, what is charged, and the throttle times in responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client

from ottla.broker.broker import Broker
from ottla.broker.quota_charges import TimedAwaitable
from ottla.broker.quotas import CLIENTS_MAX, ClientQuotas
from ottla.cluster.image import MetadataImage, QuotaEntity, StoredConfig
from ottla.cluster.topics import TopicSpec
from ottla.config import ServerConfig
from ottla.errors import ErrorCode
from ottla.records.batch import build_batch
from ottla.records.record import Record
from ottla.testing.manual_clock import START_MS, ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

PRODUCE, CONSUME = "producer_byte_rate", "consumer_byte_rate"
REQUEST, MUTATE = "request_percentage", "controller_mutation_rate"

EVERY: list[tuple[QuotaEntity, tuple[str | None, str | None]]] = [
    ((("client-id", "c"), ("user", "u")), ("u", "c")),
    ((("client-id", None), ("user", "u")), ("u", "c")),
    ((("user", "u"),), ("u", None)),
    ((("client-id", "c"), ("user", None)), ("u", "c")),
    ((("client-id", None), ("user", None)), ("u", "c")),
    ((("user", None),), ("u", None)),
    ((("client-id", "c"),), (None, "c")),
    ((("client-id", None),), (None, "c")),
]


def quotas_of(
    stored: Mapping[QuotaEntity, Mapping[str, float]], clients_max: int = CLIENTS_MAX
) -> ClientQuotas:
    quotas = ClientQuotas(ServerConfig({}), ManualClock(), clients_max=clients_max)
    quotas.apply(image_of(stored))
    return quotas


def image_of(stored: Mapping[QuotaEntity, Mapping[str, float]]) -> MetadataImage:
    return MetadataImage(
        quotas={
            entity: StoredConfig({key: repr(float(value)) for key, value in values.items()}, 0)
            for entity, values in stored.items()
        }
    )


@pytest.mark.parametrize("level", range(len(EVERY)))
def test_the_most_specific_limit_applies(level: int) -> None:
    quotas = quotas_of({entity: {PRODUCE: at + 1} for at, (entity, _) in enumerate(EVERY[level:])})
    limits = quotas.limits("u", "c")
    assert limits is not None
    assert limits.produce is not None
    assert limits.produce.limit == 1
    assert (limits.fetch, limits.request, limits.mutations) == (None, None, None)


@pytest.mark.parametrize(("entity", "shared"), EVERY)
def test_clients_of_one_quota_entity_share_its_limit(
    entity: QuotaEntity, shared: tuple[str | None, str | None]
) -> None:
    quotas = quotas_of({entity: {PRODUCE: 1}})
    mine = quotas.limits("u", "c")
    assert mine is not None
    user, client = shared
    for other in [("u", "d"), ("v", "c"), ("v", "d")]:
        theirs = quotas.limits(*other)
        same = (user is None or other[0] == user) and (client is None or other[1] == client)
        assert (theirs is not None and theirs.produce is mine.produce) == same


def test_each_kind_of_limit_is_resolved_separately() -> None:
    quotas = quotas_of(
        {(("user", "u"),): {PRODUCE: 1}, (("client-id", None),): {CONSUME: 2, MUTATE: 3}}
    )
    limits = quotas.limits("u", "c")
    assert limits is not None
    assert (limits.produce and limits.produce.limit) == 1
    assert (limits.fetch and limits.fetch.limit) == 2
    assert (limits.mutations and limits.mutations.limit) == 3
    assert limits.request is None
    assert quotas.limits("u", "c") is limits


def test_a_changed_limit_keeps_recorded_usage() -> None:
    entity: QuotaEntity = (("client-id", "c"),)
    quotas = quotas_of({entity: {PRODUCE: 100}})
    before = quotas.limits("u", "c")
    assert before is not None
    assert before.produce is not None
    assert before.produce.charge(1500, START_MS) == 5000
    quotas.apply(image_of({entity: {PRODUCE: 200}}))
    after = quotas.limits("u", "c")
    assert after is not None
    assert after.produce is before.produce
    assert after.produce.throttle_ms(START_MS) == 0
    quotas.apply(image_of({}))
    assert not quotas.active
    assert quotas.limits("u", "c") is None


def test_memory_is_bounded_for_any_number_of_client_ids() -> None:
    quotas = quotas_of({(("client-id", None),): {PRODUCE: 1, MUTATE: 1}}, clients_max=10)
    busy = quotas.limits("u", "busy")
    assert busy is not None
    assert busy.produce is not None
    busy.produce.charge(5, START_MS)
    for number in range(100):
        quotas.limits("u", f"client-{number}")
    assert len(quotas._limits) <= 10
    assert len(quotas._rates) <= 11
    assert len(quotas._buckets) <= 11
    again = quotas.limits("u", "busy")
    assert again is not None
    assert again.produce is busy.produce


def test_long_client_ids_are_truncated() -> None:
    quotas = quotas_of({(("client-id", None),): {PRODUCE: 1}})
    one = quotas.limits("u", "x" * 32_000 + "1")
    assert one is not None
    assert one is quotas.limits("u", "x" * 32_000 + "2")
    assert {len(client_id) for _, client_id in quotas._limits} == {255}


def test_only_the_running_time_of_a_coroutine_counts() -> None:
    async def work() -> str:
        await asyncio.sleep(0.6)
        with pytest.raises(RuntimeError):
            await fail()
        return "done"

    async def fail() -> None:
        await asyncio.sleep(0)
        raise RuntimeError

    async def main() -> None:
        timed = TimedAwaitable(work())  # type: ignore[arg-type]
        assert await timed == "done"
        assert 0 < timed.spent_ns < 500_000_000
        endless = asyncio.ensure_future(_wait(TimedAwaitable(asyncio.sleep(60))))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        endless.cancel()
        with pytest.raises(asyncio.CancelledError):
            await endless

    asyncio.run(main())


async def _wait(timed: TimedAwaitable) -> None:
    await timed


class MutedClient(Client):
    """A client whose connection would be muted; `mutes` has the durations."""

    def __init__(self, broker: Broker, client_id: str | None = "test") -> None:
        super().__init__(broker, client_id)
        self.mutes: list[int] = []
        self._session.mute = self.mutes.append


Act = Callable[[Broker, MutedClient, ManualClock], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., None]:
    def play(act: Act, **values: float) -> None:
        asyncio.run(_play(tmp_path, act, values))

    return play


async def _play(path: Path, act: Act, values: Mapping[str, float]) -> None:
    clock = ManualClock()
    properties = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(path),
        "ottla.metadata.sync.enable": "false",
    }
    broker = Broker(ServerConfig(properties), clock=clock)
    await broker.start()
    try:
        await broker.controller.create_topics([TopicSpec("t", 2)])
        texts = {name: repr(float(value)) for name, value in values.items()}
        await broker.settings.alter_quotas([(("client-id", "test"),)], lambda *_: texts)
        assert broker.quotas.active == bool(values)
        await act(broker, MutedClient(broker), clock)
    finally:
        await broker.stop()


def produce(size: int, *, acks: int = 1) -> ProduceRequest:
    batch = build_batch([Record(value=b"x" * size, timestamp=START_MS)])
    data = PartitionProduceData(index=0, records=batch)
    return ProduceRequest(acks=acks, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(
    offset: int = 0, *, session: int = 0, epoch: int = -1, wait_ms: int = 0, **fields: Any
) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait=wait_ms,
        min_bytes=1,
        max_bytes=1 << 20,
        session_id=session,
        session_epoch=epoch,
        topics=[FetchTopic(topic="t", partitions=[partition])],
        **fields,
    )


def records(response: FetchResponse) -> int:
    return sum(
        len(bytes(partition.records or b""))
        for topic in response.responses
        for partition in topic.partitions
    )


async def ask(client: Client, key: ApiKey, request: Any, version: int) -> Any:
    return await client.begin(key, request, version)()


def test_produced_bytes_are_charged(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        first = await ask(client, ApiKey.PRODUCE, produce(500), 9)
        assert (first.throttle_time, client.mutes) == (0, [])
        second = await ask(client, ApiKey.PRODUCE, produce(1000), 9)
        assert second.responses[0].partition_responses[0].error_code == 0
        assert 5000 < second.throttle_time < 9000
        assert client.mutes == [second.throttle_time]
        # With acks=0 no response carries the throttle time, and the client is muted anyway.
        assert await ask(client, ApiKey.PRODUCE, produce(1000, acks=0), 9) is None
        assert client.mutes[1] > client.mutes[0] + 9000
        # Other clients and other requests are not affected.
        other = MutedClient(broker, "other")
        assert (await ask(other, ApiKey.PRODUCE, produce(5000), 9)).throttle_time == 0
        assert (await ask(client, ApiKey.METADATA, MetadataRequest(), 9)).throttle_time == 0
        clock.advance(11_000)
        assert (await ask(client, ApiKey.PRODUCE, produce(500), 9)).throttle_time == 0

    play(act, producer_byte_rate=100)


@pytest.mark.parametrize("version", [4, 11, 12])
def test_a_fetch_over_the_limit_is_empty(play: Callable[..., None], version: int) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        for _ in range(4):
            await ask(client, ApiKey.PRODUCE, produce(600), 9)
        first = await ask(client, ApiKey.FETCH, fetch(0), version)
        assert (first.throttle_time, records(first) > 600) == (0, True)  # one batch: 1000 at most
        second = await ask(client, ApiKey.FETCH, fetch(1), version)
        assert (second.responses, second.error_code) == ([], 0)
        assert 2000 < second.throttle_time < 7000
        assert client.mutes == [second.throttle_time]
        again = await ask(client, ApiKey.FETCH, fetch(1), version)
        assert (
            again.throttle_time == second.throttle_time
        )  # records that were not sent are not charged
        clock.advance(11_000)
        later = await ask(client, ApiKey.FETCH, fetch(1), version)
        assert (later.throttle_time, records(later) > 600) == (0, True)

    play(act, consumer_byte_rate=100)


def test_followers_are_not_throttled_by_client_quotas(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        await ask(client, ApiKey.PRODUCE, produce(6000), 9)
        partition = broker.partitions.find("t", 0)
        state = broker.image.topics["t"].partitions[0]
        grown = replace(state, replicas=(state.leader, 9))
        partition.apply(grown, clock.now_ms(), live={}, lag_max_ms=30_000, may_lead=True)
        answer = await ask(client, ApiKey.FETCH, fetch(0, replica_id=9), 11)
        assert (answer.throttle_time, records(answer) > 6000) == (0, True)

    play(act, consumer_byte_rate=100)


def test_a_batch_that_is_larger_than_all_windows_is_sent_and_paid_for(
    play: Callable[..., None],
) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        await ask(client, ApiKey.PRODUCE, produce(6000), 9)
        await ask(client, ApiKey.PRODUCE, produce(600), 9)
        first = await ask(client, ApiKey.FETCH, fetch(0), 11)
        assert records(first) > 6000
        assert first.throttle_time > 50_000
        assert client.mutes == [first.throttle_time]
        assert (await ask(client, ApiKey.FETCH, fetch(1), 11)).responses == []

    play(act, consumer_byte_rate=100)


def test_a_throttled_session_continues_and_misses_no_change(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        for _ in range(2):
            await ask(client, ApiKey.PRODUCE, produce(600), 9)
        first = await ask(client, ApiKey.FETCH, fetch(0, epoch=0), 11)
        assert records(first) > 600
        throttled = await ask(client, ApiKey.FETCH, fetch(1, session=first.session_id, epoch=1), 11)
        assert (throttled.session_id, throttled.responses) == (first.session_id, [])
        assert throttled.throttle_time > 0
        clock.advance(11_000)
        third = await ask(client, ApiKey.FETCH, fetch(2, session=first.session_id, epoch=2), 11)
        assert third.error_code == 0
        assert third.responses[0].partitions[0].high_watermark == 2

    play(act, consumer_byte_rate=100)


def test_a_session_does_not_begin_with_a_throttled_fetch(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        for _ in range(2):
            await ask(client, ApiKey.PRODUCE, produce(600), 9)
        await ask(client, ApiKey.FETCH, fetch(0), 11)
        throttled = await ask(client, ApiKey.FETCH, fetch(1, epoch=0), 11)
        assert (throttled.session_id, throttled.responses) == (0, [])
        assert throttled.throttle_time > 0
        assert len(broker.fetch_sessions) == 0

    play(act, consumer_byte_rate=100)


def test_a_delayed_fetch_is_charged_when_it_is_answered(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        await ask(client, ApiKey.PRODUCE, produce(600), 9)
        await ask(client, ApiKey.FETCH, fetch(0), 11)
        parked = client.begin(ApiKey.FETCH, fetch(1, wait_ms=30_000), 11)
        writer = MutedClient(broker, "writer")
        await ask(writer, ApiKey.PRODUCE, produce(700), 9)
        answer = await parked()
        assert (answer.responses, answer.throttle_time > 0) == ([], True)
        assert client.mutes == [answer.throttle_time]

    play(act, consumer_byte_rate=100)


def test_a_delayed_fetch_of_a_disconnected_client_is_dropped(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        request = client.receive_message(ApiKey.FETCH, fetch(0, wait_ms=30_000), 11)
        answer = client.dispatch(request)
        assert isinstance(answer, asyncio.Future)
        assert not isinstance(answer, asyncio.Task)  # which would be allowed to finish
        partition = broker.partitions.find("t", 0)
        assert len(partition.waiting) == 1
        answer.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(partition.waiting) == 0

    play(act, consumer_byte_rate=100, request_percentage=50)


def test_time_is_charged_and_throttles_for_a_window_at_most(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        throttles = []
        for _ in range(200):
            answer = await ask(client, ApiKey.METADATA, MetadataRequest(), 9)
            throttles.append(answer.throttle_time)
        assert throttles[-1] == 1000
        assert max(throttles) == 1000
        assert client.mutes == [throttle for throttle in throttles if throttle]
        # A task is timed, too, and its response has the throttle time.
        topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
        made = await ask(client, ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), 7)
        assert (made.topics[0].error_code, made.throttle_time) == (0, 1000)

    play(act, request_percentage=1e-3)


async def make(client: Client, name: str, count: int, version: int = 7) -> tuple[str, int]:
    topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
    answer = await ask(client, ApiKey.CREATE_TOPICS, CreateTopicsRequest(topics=[topic]), version)
    return ErrorCode(answer.topics[0].error_code).name, answer.throttle_time


def test_partition_creations_and_deletions_are_rate_limited(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        assert await make(client, "a", 11) == ("NONE", 0)
        assert await make(client, "b", 5) == ("NONE", 0)  # the bucket was empty, without a debt
        assert await make(client, "c", 1) == ("THROTTLING_QUOTA_EXCEEDED", 5000)
        assert client.mutes == [5000]
        assert await make(client, "b", 1) == ("TOPIC_ALREADY_EXISTS", 0)
        grow = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="b", count=6)])
        grown = await ask(client, ApiKey.CREATE_PARTITIONS, grow, 3)
        assert grown.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="b")])
        deleted = await ask(client, ApiKey.DELETE_TOPICS, gone, 6)
        assert deleted.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert deleted.throttle_time == 5000
        assert "b" in broker.image.topics
        clock.advance(5000)
        assert (await ask(client, ApiKey.CREATE_PARTITIONS, grow, 3)).throttle_time == 0
        assert len(broker.image.topics["b"].partitions) == 6
        assert (await ask(client, ApiKey.DELETE_TOPICS, gone, 6)).throttle_time == 1000
        clock.advance(1000)
        assert (await ask(client, ApiKey.DELETE_TOPICS, gone, 6)).throttle_time == 0
        assert "b" not in broker.image.topics
        assert await make(MutedClient(broker, "other"), "d", 100) == ("NONE", 0)

    play(act, controller_mutation_rate=1)


def test_older_clients_are_served_and_muted(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        assert await make(client, "a", 14, version=5) == ("NONE", 3000)
        assert await make(client, "b", 2, version=5) == ("NONE", 5000)
        assert client.mutes == [3000, 5000]

    play(act, controller_mutation_rate=1)


def test_without_quotas_nothing_is_metered(play: Callable[..., None]) -> None:
    async def act(broker: Broker, client: MutedClient, clock: ManualClock) -> None:
        assert not broker.quotas.active
        await ask(client, ApiKey.PRODUCE, produce(10_000), 9)
        assert await make(client, "a", 500) == ("NONE", 0)
        assert client.mutes == []

    play(act)
