"""Which brokers hold a partition, once it exists: reassignment (KIP-455) as pure functions.

A reassignment is kept with the topic, so that any controller can go on with it: `replicas` has the
new ones first and the old ones behind them, `adding` those that must catch up, `removing` those
that may go then. It is complete when every broker of the target is in the in-sync set; until then
nothing is given up.

    replicas 1 2 3, target 3 4 5   ->  replicas 3 4 5 1 2, adding 4 5, removing 1 2
    in sync 1 2 3 4 5              ->  replicas 3 4 5, led by one of them
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.cluster import layout
from ottla.cluster.decisions import check_replicas, dump_topic
from ottla.cluster.decisions_elections import find, state_writes, with_leader
from ottla.cluster.image import Image, Partition, Topic
from ottla.cluster.store import Put, Write
from ottla.errors import ErrorCode, KafkaError

Target = Sequence[int] | None
"""The replicas that a partition shall have; None cancels what is under way."""


def reassign(
    image: Image,
    name: str,
    targets: Mapping[int, Target],
    *,
    allow_replication_factor_change: bool = True,
) -> tuple[list[Write], dict[int, KafkaError | None]]:
    """Begin, change or cancel the reassignment of some of a topic's partitions.

    Each succeeds or fails by itself. Another target in the middle of a reassignment takes the
    place of the first one; what had been added for that alone goes again.
    """
    results: dict[int, KafkaError | None] = {}
    changed: dict[int, Partition] = {}
    for index, target in targets.items():
        try:
            _, partition = find(image, name, index)
            if target is None:
                after = cancelled(image, partition)
            else:
                after = begun(image, partition, target)
                if not allow_replication_factor_change:
                    _check_factor(partition, target)
            changed[index] = completed(image, after)
            results[index] = None
        except KafkaError as error:
            results[index] = error
    topic = image.topics.get(name)
    return ([] if topic is None else _writes(image, topic, changed)), results


def complete(image: Image, topic: Topic) -> list[Write]:
    """End those reassignments of a topic that have come to their end."""
    changed = {}
    for partition in topic.partitions:
        if partition.reassigning:
            after = completed(image, partition)
            if after is not partition:
                changed[partition.index] = after
    return _writes(image, topic, changed)


def begun(image: Image, partition: Partition, target: Sequence[int]) -> Partition:
    check_replicas(image, target, len(target))
    origin = partition.origin
    replicas = (*target, *(each for each in origin if each not in target))
    return _placed(
        image,
        partition,
        replicas,
        adding=tuple(each for each in replicas if each not in origin),
        removing=tuple(each for each in replicas if each not in target),
    )


def cancelled(image: Image, partition: Partition) -> Partition:
    if not partition.reassigning:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    # The target had come first: those that go stood behind it. Their first order is not known any
    # more, which only matters for who is preferred as a leader.
    return _placed(image, partition, partition.origin)


def completed(image: Image, partition: Partition) -> Partition:
    """Without those that may go, if all others are in sync; else as it is."""
    target = partition.target
    if not partition.reassigning or not set(target) <= set(partition.isr):
        return partition
    return _placed(image, partition, target)


def _placed(
    image: Image,
    partition: Partition,
    replicas: tuple[int, ...],
    *,
    adding: tuple[int, ...] = (),
    removing: tuple[int, ...] = (),
) -> Partition:
    """On these brokers, and in sync on those of them that were: at least one of them was."""
    isr = tuple(each for each in partition.isr if each in replicas)
    if not isr:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "Unable to change the partition's replicas because it would require an unclean leader"
            " election: no replica that would stay is in sync.",
        )
    moved = replace(partition, replicas=replicas, isr=isr, adding=adding, removing=removing)
    return with_leader(moved, image.brokers.keys())


def _check_factor(partition: Partition, target: Sequence[int]) -> None:
    before = len(partition.target)
    if len(target) != before:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor is changed from {before} to {len(target)}",
        )


def _writes(image: Image, topic: Topic, changed: Mapping[int, Partition]) -> list[Write]:
    """One write of the topic for all its partitions, and one for the state of each that changed.

    A state is written even where it stays the same: its new version fails what the leader, which
    has not heard of the change yet, may be about to do with replicas that are gone.
    """
    before = topic.partitions
    after = [changed.get(each.index, each) for each in before]
    states = [each for each in after if each != before[each.index]]
    if not states:
        return []
    key = layout.topic_key(topic.name)
    writes: list[Write] = [Put(key, dump_topic(topic.id, after), topic.version)]
    return writes + state_writes(image, topic, states)
