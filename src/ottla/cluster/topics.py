"""Creating, growing and deleting topics: pure functions from an image and a request to writes.

They fail with Kafka's error codes and messages. They use no store, no clock and no randomness (ids
and starting points are arguments), so that the rules can be tested as plain functions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ottla.cluster import layout
from ottla.cluster.image import MetadataImage, PartitionRegistration, StoredConfig, TopicImage
from ottla.cluster.replica_assignment import ReplicaAssignment, ReplicaLists, assign_replicas
from ottla.cluster.store import Create, Delete, Put, Write
from ottla.config import ServerConfig, validate_topic_overrides
from ottla.errors import ErrorCode, KafkaError

NAME_LENGTH_MAX = 249
PARTITIONS_AT_ONCE_MAX = 10_000
"""New partitions in one request, and so in one commit; Kafka's controller has the same limit."""
FORBIDDEN_TOPIC = "__cluster_metadata"

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


@dataclass(slots=True)
class TopicSpec:
    """A topic to be created. -1 is the broker's default; an assignment replaces both counts."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(slots=True, frozen=True)
class RandomChoices:
    """The random inputs of a decision."""

    topic_id: bytes
    start: int
    shift: int


def check_topic_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION for a name that is not valid as a directory or a metric name."""
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
    image: MetadataImage, config: ServerConfig, spec: TopicSpec, choices: RandomChoices
) -> tuple[TopicImage, list[Write]]:
    """The new topic, and the writes that create it."""
    _check_new_name(image, spec.name)
    validate_topic_overrides(config, spec.configs)
    assignment = _assignment(image, config, spec, choices)
    partitions = _initial_states(image, assignment, 0)
    configs = {name: value for name, value in spec.configs.items() if value is not None}
    writes: list[Write] = [
        Create(layout.topic_key(spec.name), dump_topic(choices.topic_id, partitions))
    ]
    if configs:
        writes.append(Create(layout.topic_config_key(spec.name), layout.dump_config(configs)))
    writes.extend(_state_writes(image, spec.name, partitions))
    config_version = 0 if configs else None
    topic = TopicImage(
        spec.name, choices.topic_id, partitions, StoredConfig(configs, config_version), 0
    )
    return topic, writes


def check_partition_count(count: int) -> None:
    """POLICY_VIOLATION for more new partitions than one commit should have."""
    if count > PARTITIONS_AT_ONCE_MAX:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            "Excessively large number of partitions per request:"
            f" {count} is more than {PARTITIONS_AT_ONCE_MAX}",
        )


def create_partitions(
    image: MetadataImage,
    name: str,
    count: int,
    assignment: ReplicaLists | None,
    choices: RandomChoices,
) -> list[Write]:
    """Add partitions to a topic, up to `count`."""
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
    added = _added_replicas(image, topic, count - present, assignment, choices)
    partitions = _initial_states(image, added, present)
    value = dump_topic(topic.id, topic.partitions + partitions)
    return [
        Put(layout.topic_key(name), value, topic.version),
        *_state_writes(image, name, partitions),
    ]


def delete_topic(image: MetadataImage, name: str) -> list[Write]:
    """Delete a topic with its configs and the states of its partitions."""
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


def dump_topic(topic_id: bytes, partitions: Iterable[PartitionRegistration]) -> bytes:
    """A topic as it is stored: its id, and the replicas of each partition."""
    return layout.dump_topic(
        topic_id,
        [
            ReplicaAssignment(partition.replicas, partition.adding, partition.removing)
            for partition in partitions
        ],
    )


def dump_state(partition: PartitionRegistration, controller_epoch: int) -> bytes:
    """A partition's state as it is stored."""
    return layout.dump_state(
        partition.leader, partition.leader_epoch, partition.isr, controller_epoch
    )


def write_config(key: str, present: StoredConfig, values: Mapping[str, str]) -> list[Write]:
    """Replace the configs stored under a key; no writes if nothing changes.

    A key without configs is deleted, because it is its key that lists a group or a quota.
    """
    if present.version is None:
        return [Create(key, layout.dump_config(values))] if values else []
    if values == present.values:
        return []
    if not values:
        return [Delete(key, present.version)]
    return [Put(key, layout.dump_config(values), present.version)]


def _check_new_name(image: MetadataImage, name: str) -> None:
    check_topic_name(name)
    if name in image.topics:
        raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    if name == FORBIDDEN_TOPIC:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited."
        )
    if "." in name or "_" in name:
        # Metric names replace dots by underscores, so `a.b` and `a_b` would share a name.
        unified = name.replace(".", "_")
        for other in image.topics:
            if other.replace(".", "_") == unified:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION,
                    f"Topic '{name}' collides with existing topic: {other}",
                )


def _assignment(
    image: MetadataImage, config: ServerConfig, spec: TopicSpec, choices: RandomChoices
) -> ReplicaLists:
    if spec.assignment:
        return _manual_assignment(image, spec)
    if spec.replication_factor == 0 or spec.replication_factor < -1:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "Replication factor must be larger than 0, or -1 to use the default value.",
        )
    if spec.partition_count == 0 or spec.partition_count < -1:
        raise KafkaError(
            ErrorCode.INVALID_PARTITIONS,
            "Number of partitions was set to an invalid non-positive value.",
        )
    count = config.num_partitions if spec.partition_count == -1 else spec.partition_count
    factor = spec.replication_factor
    if factor == -1:
        factor = config.default_replication_factor
    return _place(image, count, factor, choices, 0)


def _place(
    image: MetadataImage,
    count: int,
    replication_factor: int,
    choices: RandomChoices,
    first_partition: int,
) -> ReplicaLists:
    if replication_factor > len(image.brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): The target"
            f" replication factor of {replication_factor} cannot be reached because only"
            f" {len(image.brokers)} broker(s) are registered.",
        )
    check_partition_count(count)
    return assign_replicas(
        {broker.id: broker.rack for broker in image.brokers.values()},
        count,
        replication_factor,
        start=choices.start,
        shift=choices.shift,
        first_partition=first_partition,
    )


def _manual_assignment(image: MetadataImage, spec: TopicSpec) -> ReplicaLists:
    if spec.replication_factor != -1 or spec.partition_count != -1:
        which = "replication factor" if spec.replication_factor != -1 else "numPartitions"
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"A manual partition assignment was specified, but {which} was not set to -1.",
        )
    if sorted(spec.assignment) != list(range(len(spec.assignment))):
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "partitions should be a consecutive 0-based integer sequence",
        )
    assignment = [spec.assignment[index] for index in range(len(spec.assignment))]
    for replicas in assignment:
        check_replicas(image, replicas, len(assignment[0]))
    return assignment


def _added_replicas(
    image: MetadataImage,
    topic: TopicImage,
    added: int,
    assignment: ReplicaLists | None,
    choices: RandomChoices,
) -> ReplicaLists:
    if assignment is None:
        first = len(topic.partitions)
        return _place(image, added, topic.replication_factor, choices, first)
    if len(assignment) != added:
        raise KafkaError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"Attempted to add {added} additional partition(s), but only {len(assignment)}"
            " assignment(s) were specified.",
        )
    for replicas in assignment:
        check_replicas(image, replicas, topic.replication_factor)
    return assignment


def check_replicas(image: MetadataImage, replicas: Sequence[int], replication_factor: int) -> None:
    """INVALID_REPLICA_ASSIGNMENT for a list of replicas that is not possible."""
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


def _initial_states(
    image: MetadataImage, assignment: ReplicaLists, first: int
) -> tuple[PartitionRegistration, ...]:
    """New partitions: the first live replica is the leader, all live ones are the ISR.

    A broker in controlled shutdown counts as live only if there is no other replica.
    """
    partitions = []
    active = image.active_epochs()
    for index, replicas in enumerate(assignment, first):
        live = tuple(broker for broker in replicas if broker in active)
        live = live or tuple(broker for broker in replicas if broker in image.brokers)
        partitions.append(PartitionRegistration(index, tuple(replicas), live[0], 0, live, 0))
    return tuple(partitions)


def _state_writes(
    image: MetadataImage, name: str, partitions: tuple[PartitionRegistration, ...]
) -> list[Write]:
    return [
        Create(
            layout.state_key(name, partition.index),
            dump_state(partition, image.controller_epoch),
        )
        for partition in partitions
    ]
