"""The output of kafka-streams-groups --describe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla.cli.kafka.group_report import MISSING
from ottla.cli.kafka.options import Options
from ottla.client.admin import Admin
from ottla.client.offsets import OffsetAt
from ottla.client.record import TopicPartition
from ottla.client.streams_groups import StreamsGroupDescription
from ottla.errors import KafkaError
from ottla.wire.messages.streams_group_describe import Assignment, Member, TaskIds

LEAST: Final = 15  # the minimal width of a column that fits its contents


def describe_groups(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.streams_groups.list()]
    described = admin.streams_groups.describe(*dict.fromkeys(names)) if names else {}
    verbose = options.has("verbose")
    for name in sorted(described):
        found = described[name]
        if isinstance(found, KafkaError):
            raise found
        if options.has("members"):
            print_members(found, verbose=verbose)
        elif options.has("state"):
            print_state(found, verbose=verbose)
        elif found.group.members:
            print_offsets(admin, found, verbose=verbose)


def print_offsets(admin: Admin, found: StreamsGroupDescription, *, verbose: bool) -> None:
    name = found.group.group_id
    committed = admin.groups.offsets(name)
    partitions = _source_partitions(found, committed)
    ends = admin.offsets.find(partitions)
    rows = []
    for partition in partitions:
        at = ends[partition]
        end = at.offset if isinstance(at, OffsetAt) else None
        offset = committed[partition].offset if partition in committed else None
        lag = None if offset is None or end is None else end - offset
        row = [name, partition.topic, str(partition.partition)]
        if verbose:
            epoch = committed[partition].leader_epoch if partition in committed else None
            row += [_shown(offset), _shown(epoch), _shown(end), _shown(lag).ljust(LEAST)]
        else:
            row.append(_shown(lag))
        rows.append(row)
    columns = [("GROUP", LEAST), ("TOPIC", LEAST), ("PARTITION", 10)]
    if verbose:
        columns += [
            (column, LEAST) for column in ("CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET")
        ]
        columns.append(("OFFSET-LAG".ljust(LEAST), 0))
    else:
        columns.append(("OFFSET-LAG", 0))
    _print_table(columns, rows)


def _source_partitions(
    found: StreamsGroupDescription, committed: Iterable[TopicPartition]
) -> list[TopicPartition]:
    read = {partition for member in found.as_group().members for partition in member.assignment}
    return sorted(read | set(committed))


def print_members(found: StreamsGroupDescription, *, verbose: bool) -> None:
    group, rows = found.group, []
    for member in group.members:
        row = [group.group_id]
        if verbose:
            # Kafka prints this column and the next without a space between them.
            topology = str(member.topology_epoch).ljust(LEAST) + member.member_id
            row += [str(group.assignment_epoch), topology]
            row += ["classic" if member.is_classic else "streams", str(member.member_epoch)]
        else:
            row.append(member.member_id)
        rows.append([*row, member.process_id, member.client_id, _assignments(member, verbose)])
    columns = [("GROUP", LEAST), ("MEMBER", LEAST)]
    if verbose:
        columns[1:] = [("TARGET-ASSIGNMENT-EPOCH", 25), ("TOPOLOGY-EPOCH MEMBER", LEAST + LEAST)]
        columns += [("MEMBER-PROTOCOL", LEAST), ("MEMBER-EPOCH", LEAST)]
    columns += [("PROCESS", LEAST), ("CLIENT-ID", LEAST), ("ASSIGNMENTS", 0)]
    if rows:
        _print_table(columns, rows)


def _assignments(member: Member, verbose: bool) -> str:
    text = _roles(member.assignment, "")
    return text + _roles(member.target_assignment, "TARGET-") if verbose else text


def _roles(assignment: Assignment | None, prefix: str) -> str:
    if assignment is None:
        return ""
    return (
        _role(f"{prefix}ACTIVE", assignment.active_tasks)
        + _role(f"{prefix}STANDBY", assignment.standby_tasks)
        + _role(f"{prefix}WARMUP", assignment.warmup_tasks)
    )


def _role(word: str, tasks: Sequence[TaskIds]) -> str:
    if not tasks:
        return ""
    listed = "".join(
        f"{task.subtopology_id}:[{','.join(map(str, task.partitions))}]; " for task in tasks
    )
    return f"{word}: {listed}"


def print_state(found: StreamsGroupDescription, *, verbose: bool) -> None:
    group, node = found.group, found.coordinator
    if not group.members:
        print(f"\nError: Streams group '{group.group_id}' has no active members.")
    row = [group.group_id, f"{node.host}:{node.port} ({node.id})", group.group_state]
    columns = [("GROUP", LEAST), ("COORDINATOR (ID)", 25), ("STATE", 25)]
    if verbose:
        columns += [("GROUP-EPOCH", LEAST), ("TARGET-ASSIGNMENT-EPOCH", 25)]
        row += [str(group.group_epoch), str(group.assignment_epoch)]
    _print_table([*columns, ("#MEMBERS", 0)], [[*row, str(len(group.members))]])


def _print_table(columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> None:
    """Unlike Kafka's other tools, this one prints no empty line before a table."""
    widths = [
        max([least, *(len(row[index]) for row in rows)]) if least else 0
        for index, (_, least) in enumerate(columns)
    ]
    for row in ([title for title, _ in columns], *rows):
        print(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _shown(value: int | None) -> str:
    return MISSING if value is None else str(value)
