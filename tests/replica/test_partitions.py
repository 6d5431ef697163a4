"""All partitions of a broker, following the cluster's image."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ottla.cluster.image import MetadataImage, PartitionRegistration, StoredConfig, TopicImage
from ottla.errors import ErrorCode, KafkaError
from ottla.replica.partitions import LOGS_AT_ONCE_MAX, Partitions
from ottla.storage.log import LogConfig
from ottla.storage.store import LogStore
from ottla.testing.memory_files import MemoryFiles

NOW_MS = 1_700_000_000_000
US, OTHER = 1, 2


def settings(configs: Mapping[str, str]) -> LogConfig:
    return LogConfig(retention_ms=int(configs.get("retention.ms", "777")))


def topic(
    name: str, count: int = 1, *, mark: int = 1, replicas: tuple[int, ...] = (US,)
) -> TopicImage:
    states = tuple(
        PartitionRegistration(index, replicas, replicas[0], 0, replicas, 0)
        for index in range(count)
    )
    return TopicImage(name, bytes([mark]) * 16, states, StoredConfig(), 0)


def image(*topics: TopicImage) -> MetadataImage:
    return MetadataImage(topics={topic.name: topic for topic in topics})


def open_store(files: MemoryFiles, *dirs: str) -> LogStore:
    return LogStore.open(dirs or ("/a",), LogConfig(), NOW_MS, files=files)


def follow(store: LogStore, *topics: TopicImage) -> Partitions:
    partitions = Partitions(US, store, settings)
    partitions.start(image(*topics), NOW_MS)
    return partitions


def refusal(partitions: Partitions, name: str, index: int = 0) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        partitions.find(name, index)
    return caught.value.code


def held(partitions: Partitions) -> list[tuple[str, int]]:
    return [(partition.topic, partition.index) for partition in partitions]


def test_partitions_follow_the_image() -> None:
    partitions = follow(open_store(MemoryFiles()))
    partitions.apply(image(topic("t", 2)), NOW_MS)
    first = partitions.find("t", 0)
    assert held(partitions) == [("t", 0), ("t", 1)]
    assert first.log.config.retention_ms == 777
    grown = replace(topic("t", 3), config=StoredConfig({"retention.ms": "5"}))
    partitions.apply(image(grown, topic("u", mark=2)), NOW_MS)
    assert held(partitions) == [("t", 0), ("t", 1), ("t", 2), ("u", 0)]
    assert partitions.find("t", 0) is first
    assert first.log.config.retention_ms == 5
    partitions.apply(image(topic("u", mark=2)), NOW_MS)
    assert held(partitions) == [("u", 0)]
    assert refusal(partitions, "t") is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert refusal(partitions, "u", 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partitions.of_topic("t") == {}


def test_a_large_topic_is_created_and_deleted_in_several_turns() -> None:
    store = open_store(MemoryFiles())
    partitions = follow(store)
    count = 3 * LOGS_AT_ONCE_MAX
    partitions.apply(image(topic("t", count)), NOW_MS)
    assert len(held(partitions)) == len(store) == LOGS_AT_ONCE_MAX
    assert partitions.behind
    last = partitions.find("t", count - 1)
    assert last.leads
    assert len(store) == LOGS_AT_ONCE_MAX + 1, "only the requested one"
    assert refusal(partitions, "t", count) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    turns = 0
    while partitions.behind:
        partitions.catch_up(NOW_MS)
        turns += 1
    assert (turns, len(held(partitions)), len(store)) == (2, count, count)
    assert partitions.find("t", count - 1) is last
    partitions.apply(image(), NOW_MS)
    assert held(partitions) == []
    assert refusal(partitions, "t", count - 1) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(store) == count - LOGS_AT_ONCE_MAX
    while partitions.behind:
        partitions.catch_up(NOW_MS)
    assert len(store) == 0


def test_a_recreated_large_topic_starts_empty() -> None:
    """Its old logs are not deleted yet, and older ones not even created."""
    count = 3 * LOGS_AT_ONCE_MAX
    partitions = follow(open_store(MemoryFiles()))
    partitions.apply(image(topic("t", count)), NOW_MS)
    while partitions.behind:
        partitions.catch_up(NOW_MS)
    old = partitions.find("t", count - 1)
    ended: list[int] = []
    old.waiting.add(lambda _: ended.append(1))
    for mark in (2, 3):
        partitions.apply(image(topic("t", count, mark=mark)), NOW_MS)
    assert partitions.find("t", count - 1).topic_id == bytes([3]) * 16
    assert ended == [1]
    while partitions.behind:
        partitions.catch_up(NOW_MS)
    assert {partition.topic_id for partition in partitions} == {bytes([3]) * 16}
    assert len(held(partitions)) == count


def test_partitions_reassigned_meanwhile_are_not_created() -> None:
    count = 2 * LOGS_AT_ONCE_MAX
    store = open_store(MemoryFiles())
    partitions = follow(store)
    large = topic("t", count)
    partitions.apply(image(large), NOW_MS)
    moved = tuple(replace(partition, replicas=(OTHER,)) for partition in large.partitions)
    partitions.apply(image(replace(large, partitions=moved)), NOW_MS)
    assert (partitions.behind, held(partitions), len(store)) == (False, [], 0)


def test_partitions_of_other_brokers_are_not_created() -> None:
    partitions = follow(open_store(MemoryFiles()), topic("t", replicas=(OTHER,)))
    assert held(partitions) == []


def test_a_recreated_topic_starts_empty_and_wakes_waiters() -> None:
    partitions = follow(open_store(MemoryFiles()), topic("t"))
    old = partitions.find("t", 0)
    woken: list[int] = []
    old.waiting.add(lambda _: woken.append(1))
    partitions.apply(image(topic("t", mark=2)), NOW_MS)
    new = partitions.find("t", 0)
    assert new is not old
    assert (new.topic_id, woken) == (bytes([2]) * 16, [1])


def test_a_new_leader_epoch_wakes_waiters() -> None:
    partitions = follow(open_store(MemoryFiles()), topic("t"))
    partition = partitions.find("t", 0)
    woken: list[int] = []
    partition.waiting.add(lambda _: woken.append(1))
    same = topic("t")
    partitions.apply(image(same), NOW_MS)
    assert woken == []
    led = replace(same, partitions=(replace(same.partitions[0], leader_epoch=3),))
    partitions.apply(image(led), NOW_MS)
    assert (partition.leader_epoch, woken) == (3, [1])


def test_known_logs_are_opened_and_stray_ones_set_aside() -> None:
    files = MemoryFiles()
    store = open_store(files)
    partitions = follow(store, topic("t", 2), topic("gone", mark=9))
    store.close(NOW_MS)
    store = open_store(files)
    assert len(store) == 3
    partitions = follow(store, topic("t", 2))
    assert held(partitions) == [("t", 0), ("t", 1)]
    assert len(store) == 2
    aside = [name for name in files.dirs if name.startswith("/a/gone-0.")]
    assert len(aside) == 1
    assert aside[0].endswith("-stray")


def test_a_failed_directory_takes_only_its_own_partitions_offline() -> None:
    store = open_store(MemoryFiles(), "/a", "/b")
    partitions = follow(store, topic("t", 2))
    lost, kept = partitions.find("t", 0), partitions.find("t", 1)
    woken: list[str] = []
    lost.waiting.add(lambda _: woken.append("lost"))
    kept.waiting.add(lambda _: woken.append("kept"))
    lost.log.dir.failed(OSError(errno.EIO, "a test"), "test")
    partitions.wake(lost.log.dir)
    assert woken == ["lost"]
    assert refusal(partitions, "t", 0) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions.find("t", 1) is kept
    assert (partitions.is_offline("t", 0), partitions.is_offline("t", 1)) == (True, False)
    # A deleted topic is gone, wherever its logs were.
    partitions.apply(image(), NOW_MS)
    assert refusal(partitions, "t", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not partitions.is_offline("t", 0)


def offline_at_start() -> Partitions:
    """`t-0` and `t-1` are in one directory each, of which one is unavailable."""
    files = MemoryFiles()
    store = open_store(files, "/a", "/b")
    follow(store, topic("t", 2))
    store.close(NOW_MS)
    entries = files.entries

    def fail(path: str) -> object:
        if path == "/b":
            raise OSError(errno.EIO, "a test")
        return entries(path)

    files.entries = fail  # type: ignore[assignment, method-assign]
    store = open_store(files, "/a", "/b")
    files.entries = entries  # type: ignore[method-assign]
    return follow(store, topic("t", 2))


def test_a_log_possibly_in_a_failed_directory_is_not_recreated() -> None:
    partitions = offline_at_start()
    ((_, kept),) = held(partitions)
    lost = 1 - kept
    assert refusal(partitions, "t", lost) is ErrorCode.KAFKA_STORAGE_ERROR
    changed = replace(topic("t", 2), config=StoredConfig({"retention.ms": "5"}))
    partitions.apply(image(changed), NOW_MS)
    assert refusal(partitions, "t", lost) is ErrorCode.KAFKA_STORAGE_ERROR
    assert partitions.find("t", kept).log.config.retention_ms == 5
    # New partitions are created in the other directory.
    partitions.apply(image(changed, topic("u", mark=2)), NOW_MS)
    assert partitions.find("u", 0).log.dir.path == "/a"
    partitions.apply(image(replace(changed, partitions=topic("t", 3).partitions)), NOW_MS)
    assert partitions.find("t", 2).log.dir.path == "/a"


def test_the_error_of_an_offline_partition_does_not_grow() -> None:
    """An exception accumulates a traceback each time it is raised."""
    partitions = offline_at_start()
    lost = 1 - held(partitions)[0][1]
    assert partitions.missing("t", lost) is not partitions.missing("t", lost)


def test_new_defaults_reach_every_log() -> None:
    store = open_store(MemoryFiles())
    base = 777

    def changing(configs: Mapping[str, str]) -> LogConfig:
        return LogConfig(retention_ms=int(configs.get("retention.ms", base)))

    partitions = Partitions(US, store, changing)
    own = replace(topic("own", mark=2), config=StoredConfig({"retention.ms": "5"}))
    partitions.start(image(topic("t"), own), NOW_MS)
    base = 888
    partitions.reconfigure()
    assert partitions.find("t", 0).log.config.retention_ms == 888
    assert partitions.find("own", 0).log.config.retention_ms == 5
