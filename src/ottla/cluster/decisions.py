"""What is to be done: pure functions from an image and a wish to the writes that fulfil it.

They refuse with Kafka's codes and in Kafka's manner; they touch no store, no clock and no dice (ids
and starting points are arguments), so that a cluster's rules are tested as plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.cluster import layout
from ottla.cluster.assignment import assign_replicas
from ottla.cluster.image import Config, Image, Partition, Topic
from ottla.cluster.store import Create, Delete, Put, Write
from ottla.config import ServerConfig, validate_topic_overrides
from ottla.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
PARTITIONS_AT_ONCE_MAX = 10_000
"""New partitions in one request, and so in one commit; Kafka's controller has the same limit."""
FORBIDDEN_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")

Assignment = Sequence[Sequence[int]]


@dataclass(slots=True)
class NewTopic:
    """A wish for a topic. -1 is the broker's default; an assignment takes the place of both."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class Dice:
    """The random part of a decision."""

    topic_id: bytes
    start: int
    shift: int


def check_topic_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that cannot be a directory's or a metric's."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.match(name):
        reason = (
            f"'{name}' contains one or more characters other than ASCII alphanumerics,"
            " '.', '_' and '-'"
        )
    if reason is not None:
        message = f"Topic name is invalid: {reason}"
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, message)


def create_topic(
    image: Image, config: ServerConfig, wish: NewTopic, dice: Dice
) -> tuple[Topic, list[Write]]:
    """The topic as it will be, and the writes that make it so."""
    _check_new_name(image, wish.name)
    validate_topic_overrides(config, wish.configs)
    assignment = _assignment_of(image, config, wish, dice)
    partitions = _first_states(image, assignment, 0)
    configs = {name: value for name, value in wish.configs.items() if value is not None}
    writes: list[Write] = [
        Create(layout.topic_key(wish.name), dump_topic(dice.topic_id, partitions))
    ]
    if configs:
        writes.append(Create(layout.topic_config_key(wish.name), layout.dump_config(configs)))
    writes.extend(_state_writes(image, wish.name, partitions))
    config_version = 0 if configs else None
    topic = Topic(wish.name, dice.topic_id, partitions, Config(configs, config_version), 0)
    return topic, writes


def check_partition_total(count: int) -> None:
    """POLICY_VIOLATION for more new partitions than one commit should carry."""
    if count > PARTITIONS_AT_ONCE_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request:"
            f" {count} is more than {PARTITIONS_AT_ONCE_MAX}",
        )


def create_partitions(
    image: Image,
    name: str,
    count: int,
    assignment: Assignment | None,
    dice: Dice,
) -> list[Write]:
    """Let a topic grow to `count` partitions."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    present = len(topic.partitions)
    if count == present:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {present} partition(s).")
    if count < present:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {present} partition(s);"
            f" {count} would not be an increase.",
        )
    added = _added_replicas(image, topic, count - present, assignment, dice)
    partitions = _first_states(image, added, present)
    value = dump_topic(topic.id, topic.partitions + partitions)
    return [
        Put(layout.topic_key(name), value, topic.version),
        *_state_writes(image, name, partitions),
    ]


def delete_topic(image: Image, name: str) -> list[Write]:
    """Remove a topic and all that hangs on it."""
    topic = image.topics.get(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    writes: list[Write] = [
        Delete(layout.state_key(name, partition.index), partition.version)
        for partition in topic.partitions
        if partition.version >= 0
    ]
    if topic.config.version is not None:
        writes.append(Delete(layout.topic_config_key(name), topic.config.version))
    writes.append(Delete(layout.topic_key(name), topic.version))
    return writes


def dump_topic(topic_id: bytes, partitions: Iterable[Partition]) -> bytes:
    """A topic as it is stored: which brokers hold its partitions, and which come and go."""
    return layout.dump_topic(
        topic_id,
        [layout.Assignment(each.replicas, each.adding, each.removing) for each in partitions],
    )


def dump_state(partition: Partition, controller_epoch: int) -> bytes:
    """A partition's state as it is stored."""
    return layout.dump_state(
        partition.leader, partition.leader_epoch, partition.isr, controller_epoch
    )


def write_config(key: str, present: Config, values: Mapping[str, str]) -> list[Write]:
    """Replace what is set under a config key; nothing at all where nothing changes.

    Where nothing is set any more the key goes: groups and quotas exist only as far as it does.
    """
    if present.version is None:
        return [Create(key, layout.dump_config(values))] if values else []
    if values == present.values:
        return []
    if not values:
        return [Delete(key, present.version)]
    return [Put(key, layout.dump_config(values), present.version)]


def _check_new_name(image: Image, name: str) -> None:
    check_topic_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name == FORBIDDEN_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if "." in name or "_" in name:
        # Metric names have no dots, so `a.b` and `a_b` would share theirs.
        unified = name.replace(".", "_")
        for other in image.topics:
            if other.replace(".", "_") == unified:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {other}",
                )


def _assignment_of(image: Image, config: ServerConfig, wish: NewTopic, dice: Dice) -> Assignment:
    if wish.assignment:
        return _manual_assignment(image, wish)
    if wish.replication_factor == 0 or wish.replication_factor < -1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if wish.partition_count == 0 or wish.partition_count < -1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = config.num_partitions if wish.partition_count == -1 else wish.partition_count
    factor = wish.replication_factor
    if factor == -1:
        factor = config.default_replication_factor
    return _place(image, count, factor, dice, 0)


def _place(
    image: Image, count: int, replication_factor: int, dice: Dice, first_partition: int
) -> Assignment:
    if replication_factor > len(image.brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target"
            f" replication factor of {replication_factor} cannot be reached because only"
            f" {len(image.brokers)} broker(s) are registered.",
        )
    check_partition_total(count)
    return assign_replicas(
        {broker.id: broker.rack for broker in image.brokers.values()},
        count,
        replication_factor,
        start=dice.start,
        shift=dice.shift,
        first_partition=first_partition,
    )


def _manual_assignment(image: Image, wish: NewTopic) -> Assignment:
    if wish.replication_factor != -1 or wish.partition_count != -1:
        which = "replication factor" if wish.replication_factor != -1 else "numPartitions"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A manual partition assignment was specified, but {which} was not set to -1.",
        )
    if sorted(wish.assignment) != list(range(len(wish.assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    assignment = [wish.assignment[index] for index in range(len(wish.assignment))]
    for replicas in assignment:
        check_replicas(image, replicas, len(assignment[0]))
    return assignment


def _added_replicas(
    image: Image, topic: Topic, added: int, assignment: Assignment | None, dice: Dice
) -> Assignment:
    if assignment is None:
        first = len(topic.partitions)
        return _place(image, added, topic.replication_factor, dice, first)
    if len(assignment) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignment)}"
            " assignment(s) were specified.",
        )
    for replicas in assignment:
        check_replicas(image, replicas, topic.replication_factor)
    return assignment


def check_replicas(image: Image, replicas: Sequence[int], replication_factor: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT for a list of replicas that can't be."""
    reason = None
    missing = [broker for broker in replicas if broker not in image.brokers]
    twice = [broker for broker in replicas if replicas.count(broker) > 1]
    if not replicas:
        reason = "includes an empty replica list."
    elif missing:
        reason = f"includes broker {missing[0]}, but no such broker is registered."
    elif twice:
        reason = f"includes the broker {twice[0]} more than once."
    elif len(replicas) != replication_factor:
        reason = (
            f"includes a partition with {len(replicas)} replica(s), but this is not consistent"
            f" with previous partitions, which have {replication_factor} replica(s)."
        )
    if reason is not None:
        message = f"The manual partition assignment {reason}"
        raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _first_states(image: Image, assignment: Assignment, first: int) -> tuple[Partition, ...]:
    """New partitions: the first live replica leads, all live ones are in sync.

    One that shuts down is neither, unless it is the only one.
    """
    partitions = []
    active = image.active_epochs()
    for index, replicas in enumerate(assignment, first):
        live = tuple(broker for broker in replicas if broker in active)
        live = live or tuple(broker for broker in replicas if broker in image.brokers)
        partitions.append(Partition(index, tuple(replicas), live[0], 0, live, 0))
    return tuple(partitions)


def _state_writes(image: Image, name: str, partitions: tuple[Partition, ...]) -> list[Write]:
    return [
        Create(
            layout.state_key(name, partition.index),
            dump_state(partition, image.controller_epoch),
        )
        for partition in partitions
    ]
