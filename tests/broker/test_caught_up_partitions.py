"""The leader skips partitions of a fetch session that are caught up, until they change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from data_path_broker import batch
from replicating_brokers import Brokers, play

from ottla.broker.fetch_sessions import CaughtUpPartition, FetchKey, FetchSession, FetchSessions
from ottla.cluster import layout
from ottla.cluster.image import PartitionRegistration
from ottla.cluster.store import Put
from ottla.replica.partition import Partition
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.manual_clock import START_MS
from ottla.testing.memory_files import MemoryFiles
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState

NOW_MS = START_MS
TOPIC_ID = bytes(range(16))
VERSION = 17
FOLLOWER = 2
LIVE = {1: 1, FOLLOWER: 1}
KEY: FetchKey = (TOPIC_ID, 0)


def led() -> Partition:
    """A partition led by broker 1 and followed by broker 2."""
    config = LogConfig()
    store = LogStore.open(["/data"], config, NOW_MS, files=MemoryFiles())
    log = store.create("t", 0, TOPIC_ID, config, now_ms=NOW_MS)
    made = Partition(
        "t", 0, topic_id=TOPIC_ID, leader_epoch=0, log=log, node_id=1, high_watermark=0
    )
    apply(made, PartitionRegistration(0, (1, FOLLOWER), 1, 0, (1, FOLLOWER), 0))
    return made


def apply(partition: Partition, state: PartitionRegistration) -> None:
    partition.apply(state, NOW_MS, live=LIVE, lag_max_ms=30_000, may_lead=True)


def request(session_id: int, epoch: int, *partitions: int) -> FetchRequest:
    named = [FetchPartition(partition=index) for index in partitions]
    return FetchRequest(
        replica_state=ReplicaState(FOLLOWER, 1),
        session_id=session_id,
        session_epoch=epoch,
        topics=[FetchTopic(topic_id=TOPIC_ID, partitions=named)] if partitions else [],
    )


def resting(sessions: FetchSessions, partition: Partition) -> FetchSession:
    session = sessions.resolve(request(0, 0, 0, 1), VERSION, 0).session
    assert session is not None
    session.mark_caught_up(KEY, partition, reports_high_watermark=False)
    assert list(session.active) == [(TOPIC_ID, 1)]
    return session


def written(partition: Partition) -> None:
    partition.append(memoryview(bytearray(batch(b"a"))), NOW_MS)


def committed(partition: Partition) -> None:
    partition.high_watermark = -1  # as if there had been more to commit
    partition.fetched(FOLLOWER, 0, start_offset=0, broker_epoch=1, now_ms=NOW_MS)
    assert partition.high_watermark == 0


def out_of_sync(partition: Partition) -> None:
    apply(partition, PartitionRegistration(0, (1, FOLLOWER), 1, 0, (1,), 1))


def led_by_another(partition: Partition) -> None:
    apply(partition, PartitionRegistration(0, (1, FOLLOWER), FOLLOWER, 1, (1, FOLLOWER), 1))


def led_anew(partition: Partition) -> None:
    apply(partition, PartitionRegistration(0, (1, FOLLOWER), 1, 1, (1, FOLLOWER), 1))


def gone(partition: Partition) -> None:
    partition.end()


@pytest.mark.parametrize(
    ("happens", "wakes"),
    [
        (written, True),
        (committed, False),  # sent with the next change
        (out_of_sync, True),
        (led_by_another, True),
        (led_anew, True),
        (gone, True),
    ],
)
def test_a_change_wakes_a_caught_up_partition(
    happens: Callable[[Partition], None], wakes: bool
) -> None:
    partition = led()
    session = resting(FetchSessions(10), partition)
    woken: list[int] = []
    session.wake = woken.append
    happens(partition)
    assert list(session.active) == [(TOPIC_ID, 1), KEY]
    assert bool(woken) == wakes
    assert len(partition.tail) == len(partition.waiting) == 0


def test_a_commit_wakes_followers_that_consumers_read_from() -> None:
    partition = led()
    session = resting(FetchSessions(10), partition)
    session.mark_changed(KEY)
    session.mark_caught_up(KEY, partition, reports_high_watermark=True)
    woken: list[int] = []
    session.wake = woken.append
    committed(partition)
    assert woken


def test_a_partition_named_again_is_read() -> None:
    sessions, partition = FetchSessions(10), led()
    session = resting(sessions, partition)
    fetch_context = sessions.resolve(request(session.id, 1, 0), VERSION, 0)
    assert KEY in fetch_context.partitions
    assert len(partition.tail) == len(partition.waiting) == 0


def test_a_closed_session_receives_no_changes() -> None:
    sessions, partition = FetchSessions(10), led()
    resting(sessions, partition)
    sessions.resolve(request(0, 0, 0), VERSION, 0)  # the follower opens a new session
    assert len(partition.tail) == len(partition.waiting) == 0


def test_the_records_of_one_partition_do_not_make_the_leader_look_at_others(
    tmp_path: Path,
) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", *[(0, 1)] * 50)
        assert await cluster.produce(0, b"a") == 0
        sessions = cluster[0].fetch_sessions._sessions

        def resting() -> dict[FetchKey, CaughtUpPartition]:
            found = [item for session in sessions.values() for item in session.caught_up.items()]
            return {key: partition for key, partition in found if key[1] != 0}

        await cluster.until(lambda: len(resting()) == 49)
        before = resting()
        for _ in range(20):
            assert await cluster.produce(0, b"b") == 0
        assert resting() == before  # none was woken, or it would be another object

    play(tmp_path, act, brokers=2)


def test_a_caught_up_follower_learns_that_it_left_the_isr_and_rejoins(
    tmp_path: Path,
) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1))
        assert await cluster.produce(0, b"a") == 0
        sessions = cluster[0].fetch_sessions._sessions
        await cluster.until(lambda: any(session.caught_up for session in sessions.values()))
        state = cluster.state(0)
        value = layout.dump_state(0, state.leader_epoch, (0,), 1)
        await cluster._store.commit([Put(layout.state_key("t", 0), value, state.version)])
        await cluster.until(lambda: cluster.state(0).version >= state.version + 2)
        await cluster.until(lambda: sorted(cluster.state(0).isr) == [0, 1])

    play(tmp_path, act, brokers=2)


def test_a_caught_up_follower_applies_deletions_by_retention(tmp_path: Path) -> None:
    async def act(cluster: Brokers) -> None:
        await cluster.create("t", (0, 1), configs={"retention.ms": "1", "segment.ms": "1"})
        for _ in range(3):
            assert await cluster.produce(0, b"a") == 0
        await cluster.until(lambda: cluster.held(0).log.start_offset == 3)
        await cluster.until(lambda: cluster.held(1).log.start_offset == 3)

    play(tmp_path, act, brokers=2, log_retention_check_interval_ms="500")
