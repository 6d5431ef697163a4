"""A partition that leads, follows, and learns the progress of its followers."""

from __future__ import annotations

import pytest
from test_partition import NOW_MS, TOPIC_ID, batch

from ottla.cluster.image import PartitionRegistration
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.memory_files import MemoryFiles

LAG_MS = 30_000
LIVE = {1: 11, 2: 12, 3: 13}
US = 1


def state(
    leader: int = US, epoch: int = 1, isr: tuple[int, ...] = (1, 2, 3), version: int = 0
) -> PartitionRegistration:
    return PartitionRegistration(0, (1, 2, 3), leader, epoch, isr, version)


def held(first: PartitionRegistration | None = None, *, min_isr: int = 1) -> Partition:
    config = LogConfig(min_insync_replicas=min_isr)
    store = LogStore.open(["/data"], config, NOW_MS, files=MemoryFiles())
    log = store.create("t", 0, TOPIC_ID, config, now_ms=NOW_MS)
    made = Partition(
        "t", 0, topic_id=TOPIC_ID, leader_epoch=0, log=log, node_id=US, high_watermark=0
    )
    apply(made, first or state())
    return made


def apply(
    partition: Partition,
    received: PartitionRegistration,
    *,
    may_lead: bool = True,
    now_ms: int = NOW_MS,
) -> None:
    partition.apply(received, now_ms, live=LIVE, lag_max_ms=LAG_MS, may_lead=may_lead)


def fetch(
    partition: Partition, broker: int, offset: int, now_ms: int = NOW_MS, epoch: int | None = None
) -> tuple[int, ...] | None:
    broker_epoch = LIVE[broker] if epoch is None else epoch
    return partition.fetched(
        broker, offset, start_offset=0, broker_epoch=broker_epoch, now_ms=now_ms
    )


def told_of(partition: Partition, offset: int, **more: bool) -> list[str]:
    received: list[str] = []
    partition.on_committed(offset, lambda code: received.append(code.name), **more)
    return received


def test_the_high_watermark_is_the_minimum_of_the_isr() -> None:
    partition = held()
    for _ in range(3):
        partition.append(batch(), NOW_MS)
    assert partition.high_watermark == 0
    fetch(partition, 2, 3)
    assert partition.high_watermark == 0  # 3 has not said
    fetch(partition, 3, 1)
    assert partition.high_watermark == 1
    fetch(partition, 3, 3)
    assert partition.high_watermark == 3
    fetch(partition, 3, 2)  # lost records do not lower the high watermark
    assert partition.high_watermark == 3


def test_a_commit_is_reported_once_and_immediately_if_already_reached() -> None:
    partition = held()
    partition.append(batch(), NOW_MS)
    partition.append(batch(), NOW_MS)
    first, second = told_of(partition, 1), told_of(partition, 2)
    early = told_of(partition, 1)
    fetch(partition, 2, 2)
    fetch(partition, 3, 1)
    assert (first, early, second) == (["NONE"], ["NONE"], [])
    fetch(partition, 3, 2)
    assert (first, second) == (["NONE"], ["NONE"])
    assert told_of(partition, 2) == ["NONE"]


def test_waiters_fail_when_leadership_is_lost() -> None:
    partition = held()
    partition.append(batch(), NOW_MS)
    received = told_of(partition, 1)
    apply(partition, state(leader=2, epoch=2))
    assert received == ["NOT_LEADER_OR_FOLLOWER"]
    assert told_of(partition, 1) == ["NOT_LEADER_OR_FOLLOWER"]
    with pytest.raises(KafkaError) as refused:
        partition.append(batch(), NOW_MS)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_without_a_session_no_partition_is_led() -> None:
    partition = held()
    received = told_of(partition, 1)
    apply(partition, state(), may_lead=False)
    assert not partition.leads
    assert received == ["NOT_LEADER_OR_FOLLOWER"]
    apply(partition, state())
    assert partition.leads


def test_older_states_are_dropped() -> None:
    partition = held(state(epoch=3, version=5))
    apply(partition, state(leader=2, epoch=2, version=9))
    apply(partition, state(epoch=3, isr=(1,), version=4))
    assert partition.leads
    assert (partition.isr, partition.version) == ((1, 2, 3), 5)


def test_a_leader_keeps_waiters_and_progress_across_epochs() -> None:
    partition = held()
    partition.append(batch(), NOW_MS)
    received = told_of(partition, 1)
    fetch(partition, 2, 1)
    apply(partition, state(epoch=2, version=1))
    assert partition.log.epochs.entries() == [(1, 0), (2, 1)]
    fetch(partition, 3, 1)
    assert received == ["NONE"]


def test_a_replica_outside_the_isr_does_not_count() -> None:
    partition = held()
    partition.append(batch(), NOW_MS)
    fetch(partition, 2, 1)
    apply(partition, state(isr=(1, 2), version=1))
    assert partition.high_watermark == 1


def test_too_few_in_sync_replicas_fail_before_and_after_the_append() -> None:
    partition = held(min_isr=2)
    partition.check_min_isr()
    partition.append(batch(), NOW_MS)
    safe, plain = told_of(partition, 1, needs_min_isr=True), told_of(partition, 1)
    apply(partition, state(isr=(1,), version=1))
    assert safe == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]
    assert (plain, partition.high_watermark) == ([], 0)  # KIP-966
    with pytest.raises(KafkaError) as refused:
        partition.check_min_isr()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    apply(partition, state(isr=(1, 2), version=2))
    fetch(partition, 2, 1)
    assert plain == ["NONE"]


def test_min_insync_replicas_is_capped_by_the_replica_count() -> None:
    partition = held(PartitionRegistration(0, (1,), 1, 1, (1,), 0), min_isr=2)
    partition.check_min_isr()
    partition.append(batch(), NOW_MS)
    assert partition.high_watermark == 1


def test_a_leader_alone_in_sync_commits_by_itself() -> None:
    partition = held(state(isr=(1,)))
    partition.append(batch(), NOW_MS)
    assert partition.high_watermark == 1


def test_the_leader_waits_for_a_follower_that_is_about_to_join() -> None:
    partition = held(state(isr=(1,)))
    partition.append(batch(), NOW_MS)
    assert fetch(partition, 2, 0) is None
    assert fetch(partition, 2, 1) == (1, 2)  # it has what is committed
    partition.append(batch(), NOW_MS)
    assert partition.high_watermark == 1  # and must not be left behind while it joins
    partition.append(batch(), NOW_MS + LAG_MS + 1)
    assert partition.high_watermark == 3  # but is not waited for forever


def test_dead_or_outdated_brokers_do_not_join_the_isr() -> None:
    partition = held(state(isr=(1,)))
    assert fetch(partition, 2, 0, epoch=11) is None
    assert fetch(partition, 2, 0, epoch=-1) is None
    assert fetch(partition, 2, 0, epoch=12) == (1, 2)
    with pytest.raises(KafkaError):
        fetch(partition, 2, 0, epoch=11)


def test_a_new_leader_adds_no_follower_below_its_start() -> None:
    partition = held(state(leader=2, epoch=1))
    built = bytearray(batch())
    built[12:16] = (1).to_bytes(4)  # leader epoch
    partition.follow(memoryview(built), NOW_MS)
    assert (partition.log.end_offset, partition.high_watermark) == (1, 0)
    apply(partition, state(epoch=2, isr=(1, 2), version=1))
    assert fetch(partition, 3, 0) is None  # 0 is the high watermark that we know of
    assert fetch(partition, 3, 1) == (1, 2, 3)


def test_a_follower_adopts_the_leaders_watermarks() -> None:
    partition = held(state(leader=2))
    built = bytearray(batch())
    partition.follow(memoryview(built), NOW_MS)
    partition.follow_offsets(10, 0, NOW_MS)
    assert partition.high_watermark == 1  # not beyond the local end
    partition.follow_offsets(0, 0, NOW_MS)
    assert partition.high_watermark == 1  # a new leader may know less than the last one
    partition.follow_offsets(1, 1, NOW_MS)
    assert partition.log.start_offset == 1


def test_fetches_of_non_replicas_are_refused() -> None:
    partition = held()
    with pytest.raises(KafkaError) as refused:
        partition.fetched(9, 0, start_offset=0, broker_epoch=9, now_ms=NOW_MS)
    assert refused.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_a_repeated_state_settles_no_change_in_flight() -> None:
    partition = held(state(isr=(1, 2)))
    partition.append(batch(), NOW_MS)
    fetch(partition, 2, 1)
    assert fetch(partition, 3, 1) == (1, 2, 3)
    assert partition.followers is not None
    partition.followers.begin((1, 2, 3))
    apply(partition, state(isr=(1, 2)))  # another partition of the topic has changed
    later_ms = NOW_MS + 2 * LAG_MS  # the store is slow; 3 has not fetched again
    partition.append(batch(), later_ms)
    fetch(partition, 2, 2, later_ms)
    assert partition.high_watermark == 1  # 3 may be in the set by now, and has one record only
