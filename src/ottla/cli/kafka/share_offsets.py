"""kafka-share-groups --reset-offsets and --delete-offsets."""

from __future__ import annotations

import sys
from typing import Final

from ottla.cli.kafka.exceptions import message_of
from ottla.cli.kafka.group_offsets import RESET_COLUMNS, Plan, new_offsets, topic_partitions
from ottla.cli.kafka.group_report import Column, print_table
from ottla.cli.kafka.options import Options
from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.record import TopicPartition
from ottla.errors import KafkaError

SCENARIOS: Final = ("to-datetime", "to-earliest", "to-latest")
DELETE_COLUMNS: Final[tuple[Column, ...]] = (("TOPIC", 15), ("STATUS", 0))


def reset_offsets(admin: Admin, options: Options) -> int:
    """Setting offsets creates a group that does not exist yet."""
    name = options.require("group")
    group = admin.shares.describe(name)[name]
    if isinstance(group, GroupDescription) and group.state not in ("Empty", "Dead"):
        print(f"Share group '{name}' is not empty.", file=sys.stderr)
        return 1
    if options.has("topic"):
        partitions = topic_partitions(admin, options.values("topic"))
    else:
        partitions = _known_to(admin, name)
    plan = new_offsets(admin, options, partitions, {}) if partitions else {}
    if options.has("execute") and plan:
        _alter(admin, name, plan)
    rows = [
        [name, partition.topic, str(partition.partition), str(at)]
        for partition, at in sorted(plan.items())
    ]
    print_table([("GROUP", max(15, len(name))), *RESET_COLUMNS[1:]], rows)
    return 0


def _alter(admin: Admin, name: str, plan: Plan) -> None:
    results: dict[TopicPartition, KafkaError | None]
    try:
        results = admin.shares.alter_offsets(name, plan)
    except KafkaError as error:
        results = dict.fromkeys(plan, error)
    refused = {partition: why for partition, why in results.items() if why is not None}
    if refused:
        shown = ", ".join(str(partition) for partition in sorted(refused))
        words = f"Failed altering group offsets for the following partitions: [{shown}]"
        raise KafkaError(next(iter(refused.values())).code, words)


def _known_to(admin: Admin, name: str) -> list[TopicPartition]:
    """All partitions of the topics that a group has offsets for."""
    topics = {partition.topic for partition in admin.shares.offsets(name)}
    return topic_partitions(admin, sorted(topics))


def delete_offsets(admin: Admin, options: Options) -> None:
    (name,) = dict.fromkeys(options.values("group"))
    topics = list(dict.fromkeys(options.values("topic")))
    results: dict[str, KafkaError | None]
    try:
        results = admin.shares.delete_offsets(name, topics)
    except KafkaError as error:
        print(f"\nError: {message_of(error)}")
        results = dict.fromkeys(topics, error)
    rows = [
        [topic, f"Error: {message_of(error)}" if error else "Successful"]
        for topic, error in sorted(results.items(), key=lambda item: item[0])
    ]
    print_table(DELETE_COLUMNS, rows)
