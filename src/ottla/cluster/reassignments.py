"""Partition reassignment (KIP-455) as pure functions.

A reassignment is stored with the topic, so that a new controller can continue it: `replicas` has
the target replicas first and the former ones behind them, `adding` those that must catch up,
`removing` those that are dropped after that. The reassignment is complete when all target replicas
are in the ISR; until then no replica is dropped.

    replicas 1 2 3, target 3 4 5   ->  replicas 3 4 5 1 2, adding 4 5, removing 1 2
    ISR 1 2 3 4 5                  ->  replicas 3 4 5, led by one of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.cluster import layout
from ottla.cluster.image import MetadataImage, PartitionRegistration, TopicImage
from ottla.cluster.leader_election import find_partition, state_writes, with_leader
from ottla.cluster.store import Put, Write
from ottla.cluster.topics import check_replicas, dump_topic
from ottla.errors import ErrorCode, KafkaError

TargetReplicas = Sequence[int] | None
"""The target replicas of a partition; None cancels an ongoing reassignment."""


def reassign(
    image: MetadataImage,
    name: str,
    targets: Mapping[int, TargetReplicas],
    *,
    allow_replication_factor_change: bool = True,
) -> tuple[list[Write], dict[int, KafkaError | None]]:
    """Start, change or cancel the reassignment of some of a topic's partitions.

    Each succeeds or fails by itself. A new target during a reassignment replaces the former one;
    replicas that were added only for that one are removed again.
    """
    results: dict[int, KafkaError | None] = {}
    changed: dict[int, PartitionRegistration] = {}
    for index, target in targets.items():
        try:
            _, partition = find_partition(image, name, index)
            if target is None:
                after = cancel_reassignment(image, partition)
            else:
                after = begin_reassignment(image, partition, target)
                if not allow_replication_factor_change:
                    _check_factor(partition, target)
            changed[index] = complete_reassignment(image, after)
            results[index] = None
        except KafkaError as error:
            results[index] = error
    topic = image.topics.get(name)
    return ([] if topic is None else _writes(image, topic, changed)), results


def complete_reassignments(image: MetadataImage, topic: TopicImage) -> list[Write]:
    """Complete the reassignments of a topic whose target replicas are all in the ISR."""
    changed = {}
    for partition in topic.partitions:
        if partition.reassigning:
            after = complete_reassignment(image, partition)
            if after is not partition:
                changed[partition.index] = after
    return _writes(image, topic, changed)


def begin_reassignment(
    image: MetadataImage, partition: PartitionRegistration, target: Sequence[int]
) -> PartitionRegistration:
    check_replicas(image, target, len(target))
    origin = partition.origin
    replicas = (*target, *(replica for replica in origin if replica not in target))
    return _with_replicas(
        image,
        partition,
        replicas,
        adding=tuple(replica for replica in replicas if replica not in origin),
        removing=tuple(replica for replica in replicas if replica not in target),
    )


def cancel_reassignment(
    image: MetadataImage, partition: PartitionRegistration
) -> PartitionRegistration:
    if not partition.reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # The original order of the replicas is lost, because the target was put before the others.
    # That only affects which replica is the preferred leader.
    return _with_replicas(image, partition, partition.origin)


def complete_reassignment(
    image: MetadataImage, partition: PartitionRegistration
) -> PartitionRegistration:
    """The partition without the removed replicas if the target is in sync; else unchanged."""
    target = partition.target
    if not partition.reassigning or not set(target) <= set(partition.isr):
        return partition
    return _with_replicas(image, partition, target)


def _with_replicas(
    image: MetadataImage,
    partition: PartitionRegistration,
    replicas: tuple[int, ...],
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> PartitionRegistration:
    """The partition with these replicas. Its ISR keeps those of them that were in it."""
    isr = tuple(replica for replica in partition.isr if replica in replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unable to change the partition's replicas because it would require an unclean leader"
            " election: no replica that would stay is in sync.",
        )
    moved = replace(partition, replicas=replicas, isr=isr, adding=adding, removing=removing)
    return with_leader(moved, image.brokers.keys())


def _check_factor(partition: PartitionRegistration, target: Sequence[int]) -> None:
    before = len(partition.target)
    if len(target) != before:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {len(target)}",
        )


def _writes(
    image: MetadataImage, topic: TopicImage, changed: Mapping[int, PartitionRegistration]
) -> list[Write]:
    """One write of the topic, and one of the state of each partition that changed.

    A state is written even if its value stays the same: the new version fails an ISR change by a
    leader that has not seen the reassignment yet and could add a replica that is gone.
    """
    before = topic.partitions
    after = [changed.get(partition.index, partition) for partition in before]
    states = [partition for partition in after if partition != before[partition.index]]
    if not states:
        return []
    key = layout.topic_key(topic.name)
    writes: list[Write] = [Put(key, dump_topic(topic.id, after), topic.version)]
    return writes + state_writes(image, topic, states)
