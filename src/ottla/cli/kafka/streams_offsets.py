"""kafka-streams-groups --reset-offsets and --delete-offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla.cli.kafka.group_offsets import (
    SCENARIOS,
    Plan,
    delete_offsets_of,
    new_offsets,
    plan_of_file,
    to_csv,
    topic_partitions,
)
from ottla.cli.kafka.options import Options, UsageError
from ottla.client.admin import Admin
from ottla.client.streams_groups import StreamsGroupDescription
from ottla.errors import KafkaError

ROW: Final = "{:<30} {:<30} {:<10} {:<15}"


def reset_offsets(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.streams_groups.list()]
    described = admin.streams_groups.describe(*dict.fromkeys(names)) if names else {}
    plans: dict[str, Plan] = {}
    for name, found in described.items():
        if isinstance(found, KafkaError):
            raise found
        plans[name] = _plan_of(admin, options, found, several=len(names) > 1)
        if options.has("execute") and plans[name]:
            admin.groups.alter_offsets(name, plans[name])
            _delete_internal(admin, options, found)
    if options.has("export"):
        print(to_csv(plans, several=len(names) > 1))
        return
    print()
    print(ROW.format("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"))
    for name, plan in plans.items():
        for partition, offset in plan.items():
            print(ROW.format(name, partition.topic, partition.partition, offset))


def _plan_of(
    admin: Admin, options: Options, found: StreamsGroupDescription, *, several: bool
) -> Plan:
    group = found.group
    if group.members:
        print(
            f"\nError: Assignments can only be reset if the group '{group.group_id}' is inactive,"
            f" but the current state is {group.group_state}."
        )
        return {}
    if options.has("from-file"):
        return plan_of_file(admin, options, group.group_id, several=several) or {}
    if not options.has("input-topic") and not options.has("all-input-topics"):
        raise UsageError("One of the reset scopes should be defined: --all-topics, --topic.")
    if not any(map(options.has, SCENARIOS)):
        shown = ", ".join(f"[{scenario}]" for scenario in SCENARIOS)
        raise UsageError(
            f"Option '[reset-offsets]' requires one of the following scenarios: [{shown}]"
        )
    inputs = _inputs(found)
    words = options.values("input-topic") or inputs
    partitions = topic_partitions(admin, words)
    if any(partition.topic not in inputs for partition in partitions):
        raise UsageError(f"One or more topics are not part of the group '{group.group_id}'.")
    current = {
        partition: at.offset for partition, at in admin.groups.offsets(group.group_id).items()
    }
    return new_offsets(admin, options, partitions, current)


def delete_offsets(admin: Admin, options: Options) -> None:
    name = options.require("group")
    words: Iterable[str] = options.values("input-topic")
    if options.has("all-input-topics"):
        found = admin.streams_groups.describe(name)[name]
        if isinstance(found, KafkaError):
            raise found
        read = {partition.topic for partition in admin.groups.offsets(name)}
        words = [topic for topic in _inputs(found) if topic in read]
    delete_offsets_of(admin, name, words)


def _inputs(group: StreamsGroupDescription) -> list[str]:
    """The topics that come from outside the application."""
    internal = set(group.internal_topics())
    return sorted({topic for topics in group.sources().values() for topic in topics} - internal)


def _delete_internal(admin: Admin, options: Options, found: StreamsGroupDescription) -> None:
    topics = found.internal_topics()
    if not options.has("delete-all-internal-topics"):
        wanted = options.values("delete-internal-topic")
        for name in wanted:
            if name not in topics:
                print(
                    f"\nError: The internal topic '{name}' is not inferred as internal and thus"
                    f" will not be deleted with the group '{found.group.group_id}'."
                )
        topics = [name for name in topics if name in wanted]
    delete_internal_topics(admin, topics)


def delete_internal_topics(admin: Admin, topics: Iterable[str]) -> None:
    there = set(admin.topics.names())
    doomed = [name for name in topics if name in there]
    for error in (admin.topics.delete(*doomed) if doomed else {}).values():
        if error is not None:
            raise error
