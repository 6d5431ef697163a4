"""Replication where it is not the common case: racks, throttles, reassignment, lost sessions."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from data_path_broker import Client, batch
from replicating_brokers import Brokers, play

from ottla.cluster import layout
from ottla.cluster.store import Put
from ottla.errors import ErrorCode
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


async def fetch(
    cluster: Brokers,
    broker_id: int,
    offset: int = 0,
    *,
    version: int = 17,
    wait_ms: int = 0,
    epoch: int = -1,
    **more: object,
) -> PartitionData:
    broker = cluster[broker_id]
    wanted = FetchPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1 << 20, current_leader_epoch=epoch
    )
    topic = FetchTopic(topic="t", topic_id=broker.image.topics["t"].id, partitions=[wanted])
    given = {"max_wait": wait_ms, "min_bytes": 1, "max_bytes": 1 << 20, **more}
    request = FetchRequest(topics=[topic], **given)  # type: ignore[arg-type]
    answer = await Client(broker).ask(ApiKey.FETCH, request, version)
    data: PartitionData = answer.responses[0].partitions[0]
    return data


def test_consumers_are_sent_to_a_replica_in_their_rack(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        for each in range(3):
            await cluster.start(each, broker_rack=f"r{each}")
        await cluster.create("t", (0, 1, 2))
        assert await cluster.produce(0, b"a", b"b") == 0
        await cluster.until(lambda: cluster.held(2).high_watermark == 2)
        told = await fetch(cluster, 0, rack_id="r2", wait_ms=5000)
        assert (told.preferred_read_replica, told.records) == (2, b"")
        for rack in ("r0", "elsewhere", ""):
            told = await fetch(cluster, 0, rack_id=rack)
            assert told.preferred_read_replica == -1
            assert told.records
        told = await fetch(cluster, 2, rack_id="r2")
        assert told.records
        assert told.high_watermark == 2
        # One who reads there hears of the next record at once, not when a follower's fetch ends.
        reading = asyncio.ensure_future(fetch(cluster, 2, 2, rack_id="r2", wait_ms=100_000))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        assert await cluster.produce(0, b"c") == 0
        assert (await reading).records
        assert time.monotonic() - started < 30

    settings = {"replica_selector_class": SELECTOR, "replica_fetch_wait_max_ms": "60000"}
    play(tmp_path, act, brokers=0, **settings)


def test_old_consumers_read_from_leaders_only_and_writers_too(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        told = await fetch(cluster, 1, version=10)
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await cluster.produce(1, b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await cluster.produce(2, b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, act)


def test_who_asks_the_wrong_broker_is_told_the_right_one(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        data = PartitionProduceData(index=0, records=batch(b"a"))
        topic_id = cluster[1].image.topics["t"].id
        for version in (10, 13):
            topic = TopicProduceData(name="t", topic_id=topic_id, partition_data=[data])
            request = ProduceRequest(acks=1, topic_data=[topic])
            answer = await Client(cluster[2]).ask(ApiKey.PRODUCE, request, version)
            (told,) = answer.responses[0].partition_responses
            assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (0, 0)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.port) == (0, cluster[0].port)
        told = await fetch(cluster, 2)
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert told.current_leader is not None
        assert told.current_leader.leader_id == 0

    play(tmp_path, act)


def test_followers_are_served_by_leaders_only_and_only_if_they_are_replicas(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        me = ReplicaState(1, cluster[1].image.brokers[1].epoch)
        assert (await fetch(cluster, 0, replica_state=me)).error_code == 0
        stranger = ReplicaState(2, cluster[1].image.brokers[2].epoch)
        told = await fetch(cluster, 0, replica_state=stranger)
        assert told.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        told = await fetch(cluster, 1, replica_state=stranger)
        assert told.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        told = await fetch(cluster, 0, replica_state=me, epoch=7)
        assert told.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(tmp_path, act)


def test_a_consumer_sees_what_is_committed_and_a_follower_what_is_written(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        cluster[1].replication.fetching.stop()
        assert await cluster.produce(0, b"a", acks=1) == 0
        assert (await fetch(cluster, 0)).records == b""
        me = ReplicaState(1, cluster[1].image.brokers[1].epoch)
        assert (await fetch(cluster, 0, replica_state=me)).records
        assert (await fetch(cluster, 0)).high_watermark == 0
        await fetch(cluster, 0, 1, replica_state=me)
        told = await fetch(cluster, 0, 0)
        assert told.high_watermark == 1
        assert told.records

    play(tmp_path, act)


def test_acks_all_times_out_when_a_follower_does_not_follow(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        cluster[1].replication.fetching.stop()
        data = PartitionProduceData(index=0, records=batch(b"a"))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout=50, topic_data=[topic])
        answer = await Client(cluster[0]).ask(ApiKey.PRODUCE, request, 9)
        (told,) = answer.responses[0].partition_responses
        assert told.error_code == ErrorCode.REQUEST_TIMED_OUT

    play(tmp_path, act)


def test_who_lags_leaves_the_set_and_joins_again(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        fetching = cluster[1].replication.fetching
        fetching.stop()
        waiting = asyncio.ensure_future(cluster.produce(0, b"a"))
        await cluster.until(lambda: cluster.state(2).isr == (0,))
        assert await waiting == 0  # committed by those who are left
        assert cluster[0].replication.isr_writes.shrunk == 1
        fetching._stopped = False
        fetching.update(cluster.held(1))
        await cluster.until(lambda: cluster.state(2).isr == (0, 1))
        assert cluster.end(1) == 1

    play(tmp_path, act, replica_lag_time_max_ms="200")


def test_a_new_leader_does_not_say_where_the_end_is_before_it_knows(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1, 2))
        for each in range(3):
            assert await cluster.produce(0, b"%d" % each) == 0
        cluster.held(1).high_watermark = 0  # it has not heard
        cluster[2].replication.fetching.stop()
        await cluster.crash(0)
        await cluster.until(lambda: cluster.held(1).leads)
        asked = ListOffsetsPartition(partition_index=0, timestamp=-1)
        topics = [ListOffsetsTopic(name="t", partitions=[asked])]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        for version, code in (
            (5, ErrorCode.OFFSET_NOT_AVAILABLE),
            (4, ErrorCode.LEADER_NOT_AVAILABLE),
        ):
            answer = await Client(cluster[1]).ask(ApiKey.LIST_OFFSETS, request, version)
            assert answer.topics[0].partitions[0].error_code == code
        request.replica_id = 2
        answer = await Client(cluster[1]).ask(ApiKey.LIST_OFFSETS, request, 5)
        assert answer.topics[0].partitions[0].offset == 3

    play(tmp_path, act)


def test_a_follower_whose_next_record_is_deleted_begins_at_the_leaders_start(
    tmp_path: Path,
) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        assert await cluster.produce(0, b"a") == 0
        await cluster.stop(1)
        for _ in range(5):
            assert await cluster.produce(0, b"b") == 0
        cluster.held(0).delete_records(4, 0)
        await cluster.start(1)
        await cluster.until(lambda: cluster.end(1) == 6)
        assert cluster.held(1).log.start_offset == 4
        await cluster.until(lambda: set(cluster.state(0).isr) == {0, 1})

    play(tmp_path, act, brokers=2)


def test_a_replica_that_is_given_to_others_is_deleted(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1, 2))
        assert await cluster.produce(0, b"a") == 0
        topic = cluster[0].image.topics["t"]
        entry = await cluster._store.get(layout.topic_key("t"))
        assert entry is not None
        value = entry.value.replace(b"[0,1,2]", b"[0,1]")
        assert value != entry.value
        await cluster._store.commit([Put(layout.topic_key("t"), value, topic.version)])
        await cluster.until(lambda: 0 not in cluster[2].partitions.of_topic("t"))
        assert not list((tmp_path / "2").glob("t-0"))
        assert cluster.held(0).leads

    play(tmp_path, act)


def test_a_throttled_follower_catches_up_slowly_and_the_others_do_not_wait(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        limits = {
            "follower.replication.throttled.rate": "100000",
            "replica.fetch.max.bytes": "60000",
        }
        throttled = {
            "leader.replication.throttled.replicas": "0:0",
            "follower.replication.throttled.replicas": "0:1",
        }
        await cluster.create("t", (0, 1), configs=throttled)
        await cluster.create("u", (0, 1))
        await cluster.stop(1)
        for _ in range(40):
            assert await cluster.produce(0, b"x" * 50_000, acks=1) == 0
            assert await cluster.produce(0, b"x" * 50_000, acks=1, topic="u") == 0
        await cluster.start(1, **limits)
        await cluster.until(lambda: cluster.end(1, "u") == 40)
        assert cluster.end(1) < 40
        await cluster.until(lambda: cluster.end(1) > 0)
        before = cluster.end(1)
        await asyncio.sleep(0.3)
        assert cluster.end(1) <= before + 10

    play(tmp_path, act, brokers=2)


def test_a_leader_that_was_stopped_itself_takes_nobody_for_one_that_lags(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        replication = cluster[0].replication
        followers = cluster.held(0).followers
        assert followers is not None
        (follower,) = followers
        now_ms = 10**13
        follower.end_offset, follower.caught_up_ms = -1, 0
        replication.check_isr(now_ms)
        assert followers.pending is None
        replication.check_isr(now_ms + 10_000)
        assert followers.pending == (0,)

    play(tmp_path, act, brokers=2)


def test_a_follower_hears_of_what_is_new_among_many_that_are_quiet(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        for number in range(50):
            await cluster.create(f"quiet{number}", (0, 1))
        await cluster.create("t", (0, 1))
        for number in range(1, 20):
            assert await cluster.produce(0, b"a") == 0
            assert cluster.end(1) == number
        await cluster.until(lambda: cluster.held(1).high_watermark == 19)
        assert await cluster.produce(0, b"a", topic="quiet7") == 0
        cluster.held(0).delete_records(5, 0)
        await cluster.until(lambda: cluster.held(1).log.start_offset == 5)
        await asyncio.sleep(4.0)  # nobody is taken for one that lags
        assert {cluster.state(1, f"quiet{number}").isr for number in range(50)} == {(0, 1)}

    play(tmp_path, act, brokers=2, replica_lag_time_max_ms="3000", replica_fetch_wait_max_ms="100")


def test_others_lead_what_was_on_a_disk_that_failed(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        for each in range(2):
            dirs = [tmp_path / f"{each}-{name}" for name in "ab"]
            await cluster.start(each, log_dirs=",".join(map(str, dirs)))
        await cluster.create("t", (0, 1))
        await cluster.create("u", (0,))
        assert await cluster.produce(0, b"a") == 0
        directory = cluster.held(0).log.dir
        directory.failed(OSError(5, "Input/output error"), "a test")
        await cluster.until(lambda: cluster.held(1).leads)
        assert cluster.state(1).isr == (1,)
        assert cluster.state(1, "u").leader == 0
        assert await cluster.produce(1, b"b") == 0
        await asyncio.sleep(0.1)
        assert cluster.state(1).isr == (1,)  # who has no disk does not come back by fetching

    play(tmp_path, act, brokers=0)


def test_a_follower_tries_at_once_when_its_leader_is_back(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        await cluster.stop(1)
        await cluster.crash(0)
        await cluster.start(1)
        await asyncio.sleep(2.5)  # longer and longer pauses
        await cluster.start(0)
        started = time.monotonic()
        await cluster.until(lambda: set(cluster.state(1).isr) == {0, 1})
        assert time.monotonic() - started < 30

    play(tmp_path, act, brokers=2, replica_fetch_backoff_ms="60000")


def test_without_a_session_a_broker_leads_nothing(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0,))
        assert await cluster.produce(0, b"a") == 0
        cluster[0].partitions.fence(0)
        assert await cluster.produce(0, b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster[0].partitions.unfence(0)
        assert await cluster.produce(0, b"a") == 0

    play(tmp_path, act, brokers=1)


def test_a_partition_that_comes_while_a_fetch_waits_is_followed_at_once(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("first", (0, 1))
        await asyncio.sleep(0.2)  # the follower's fetch is held now, for a minute
        started = time.monotonic()
        await cluster.create("t", (0, 1))
        assert await cluster.produce(0, b"a") == 0
        assert time.monotonic() - started < 30

    play(tmp_path, act, brokers=2, replica_fetch_wait_max_ms="60000")
