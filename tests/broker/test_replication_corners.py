"""Replication in unusual cases: racks, throttles, reassignment, lost sessions."""

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


def test_consumers_are_directed_to_a_replica_in_their_rack(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        for broker_id in range(3):
            await cluster.start(broker_id, broker_rack=f"r{broker_id}")
        await cluster.create("t", (0, 1, 2))
        assert await cluster.produce(0, b"a", b"b") == 0
        await cluster.until(lambda: cluster.held(2).high_watermark == 2)
        result = await fetch(cluster, 0, rack_id="r2", wait_ms=5000)
        assert (result.preferred_read_replica, result.records) == (2, b"")
        for rack in ("r0", "elsewhere", ""):
            result = await fetch(cluster, 0, rack_id=rack)
            assert result.preferred_read_replica == -1
            assert result.records
        result = await fetch(cluster, 2, rack_id="r2")
        assert result.records
        assert result.high_watermark == 2
        # Its readers see the next record at once, not at the end of a follower's fetch.
        reading = asyncio.ensure_future(fetch(cluster, 2, 2, rack_id="r2", wait_ms=100_000))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        assert await cluster.produce(0, b"c") == 0
        assert (await reading).records
        assert time.monotonic() - started < 30

    settings = {"replica_selector_class": SELECTOR, "replica_fetch_wait_max_ms": "60000"}
    play(tmp_path, act, brokers=0, **settings)


def test_old_consumers_and_all_producers_use_leaders_only(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        result = await fetch(cluster, 1, version=10)
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await cluster.produce(1, b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await cluster.produce(2, b"a") == ErrorCode.NOT_LEADER_OR_FOLLOWER

    play(tmp_path, act)


def test_a_request_to_the_wrong_broker_names_the_leader(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        data = PartitionProduceData(index=0, records=batch(b"a"))
        topic_id = cluster[1].image.topics["t"].id
        for version in (10, 13):
            topic = TopicProduceData(name="t", topic_id=topic_id, partition_data=[data])
            request = ProduceRequest(acks=1, topic_data=[topic])
            answer = await Client(cluster[2]).ask(ApiKey.PRODUCE, request, version)
            (result,) = answer.responses[0].partition_responses
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert (result.current_leader.leader_id, result.current_leader.leader_epoch) == (0, 0)
            (node,) = answer.node_endpoints
            assert (node.node_id, node.port) == (0, cluster[0].port)
        result = await fetch(cluster, 2)
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert result.current_leader is not None
        assert result.current_leader.leader_id == 0

    play(tmp_path, act)


def test_followers_are_served_by_leaders_only_and_only_if_they_are_replicas(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        me = ReplicaState(1, cluster[1].image.brokers[1].epoch)
        assert (await fetch(cluster, 0, replica_state=me)).error_code == 0
        stranger = ReplicaState(2, cluster[1].image.brokers[2].epoch)
        result = await fetch(cluster, 0, replica_state=stranger)
        assert result.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        result = await fetch(cluster, 1, replica_state=stranger)
        assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        result = await fetch(cluster, 0, replica_state=me, epoch=7)
        assert result.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH

    play(tmp_path, act)


def test_a_consumer_reads_committed_records_and_a_follower_all(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        cluster[1].replication.fetchers.stop()
        assert await cluster.produce(0, b"a", acks=1) == 0
        assert (await fetch(cluster, 0)).records == b""
        me = ReplicaState(1, cluster[1].image.brokers[1].epoch)
        assert (await fetch(cluster, 0, replica_state=me)).records
        assert (await fetch(cluster, 0)).high_watermark == 0
        await fetch(cluster, 0, 1, replica_state=me)
        result = await fetch(cluster, 0, 0)
        assert result.high_watermark == 1
        assert result.records

    play(tmp_path, act)


def test_acks_all_times_out_when_a_follower_lags(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        cluster[1].replication.fetchers.stop()
        data = PartitionProduceData(index=0, records=batch(b"a"))
        topic = TopicProduceData(name="t", partition_data=[data])
        request = ProduceRequest(acks=-1, timeout=50, topic_data=[topic])
        answer = await Client(cluster[0]).ask(ApiKey.PRODUCE, request, 9)
        (result,) = answer.responses[0].partition_responses
        assert result.error_code == ErrorCode.REQUEST_TIMED_OUT

    play(tmp_path, act)


def test_a_lagging_follower_leaves_the_isr_and_rejoins(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        fetchers = cluster[1].replication.fetchers
        fetchers.stop()
        waiting = asyncio.ensure_future(cluster.produce(0, b"a"))
        await cluster.until(lambda: cluster.state(2).isr == (0,))
        assert await waiting == 0  # committed by the remaining replicas
        assert cluster[0].replication.isr_writes.shrunk == 1
        fetchers._stopped = False
        fetchers.update(cluster.held(1))
        await cluster.until(lambda: cluster.state(2).isr == (0, 1))
        assert cluster.end(1) == 1

    play(tmp_path, act, replica_lag_time_max_ms="200")


def test_a_new_leader_reports_no_end_before_its_high_watermark_is_known(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1, 2))
        for number in range(3):
            assert await cluster.produce(0, b"%d" % number) == 0
        cluster.held(1).high_watermark = 0  # it has not noticed
        cluster[2].replication.fetchers.stop()
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


def test_a_follower_behind_the_leaders_start_offset_begins_there(
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


def test_a_reassigned_replica_is_deleted(tmp_path: Path) -> None:
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


def test_a_throttled_follower_does_not_delay_the_others(tmp_path: Path) -> None:
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


def test_a_paused_leader_shrinks_no_isr_when_it_resumes(tmp_path: Path) -> None:
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


def test_a_follower_fetches_one_busy_partition_among_many_idle_ones(tmp_path: Path) -> None:
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
        await asyncio.sleep(4.0)  # no follower counts as lagging
        assert {cluster.state(1, f"quiet{number}").isr for number in range(50)} == {(0, 1)}

    play(tmp_path, act, brokers=2, replica_lag_time_max_ms="3000", replica_fetch_wait_max_ms="100")


def test_other_brokers_lead_the_partitions_of_a_failed_disk(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        for broker_id in range(2):
            dirs = [tmp_path / f"{broker_id}-{name}" for name in "ab"]
            await cluster.start(broker_id, log_dirs=",".join(map(str, dirs)))
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
        assert cluster.state(1).isr == (1,)  # a replica without a disk does not rejoin by fetching

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


def test_a_partition_added_during_a_waiting_fetch_is_followed_at_once(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("first", (0, 1))
        await asyncio.sleep(0.2)  # the follower's fetch waits now, for a minute
        started = time.monotonic()
        await cluster.create("t", (0, 1))
        assert await cluster.produce(0, b"a") == 0
        assert time.monotonic() - started < 30

    play(tmp_path, act, brokers=2, replica_fetch_wait_max_ms="60000")
