"""The output of kafka-consumer-groups --describe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final

from ottla.cli.kafka.options import Options
from ottla.client.admin import Admin
from ottla.client.committed_offsets import OffsetAndMetadata
from ottla.client.group_descriptions import GroupDescription, MemberDescription
from ottla.client.offsets import OffsetAt
from ottla.client.record import TopicPartition
from ottla.errors import ErrorCode, KafkaError

MISSING: Final = "-"

# A column's title and its minimal width; 0 for the last one, which is not padded.
OFFSET_COLUMNS: Final = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("CURRENT-OFFSET", 15),
    ("LOG-END-OFFSET", 15),
    ("LAG", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 0),
)
EPOCH_COLUMN: Final = ("LEADER-EPOCH", 15)
MEMBER_COLUMNS: Final = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 15),
)
MEMBER_LAST_COLUMN: Final = ("#PARTITIONS", 16)
INSTANCE_COLUMN: Final = ("GROUP-INSTANCE-ID", 17)
MEMBER_VERBOSE_COLUMNS: Final = (
    ("CURRENT-EPOCH", 15),
    ("CURRENT-ASSIGNMENT", 20),
    ("TARGET-EPOCH", 15),
    ("TARGET-ASSIGNMENT", 20),
)
UPGRADED_COLUMN: Final = ("UPGRADED", 0)  # only while a group has members of both protocols
STATE_COLUMNS: Final = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("ASSIGNMENT-STRATEGY", 20),
    ("STATE", 20),
    ("#MEMBERS", 0),
)
STATE_VERBOSE_COLUMNS: Final = (("GROUP-EPOCH", 15), ("TARGET-ASSIGNMENT-EPOCH", 25))

Column = tuple[str, int]


def describe_groups(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.groups.list()]
    if not names:
        return
    described = admin.groups.describe(*dict.fromkeys(names))
    verbose = options.has("verbose")
    for group in [known(name, described[name]) for name in sorted(described)]:
        if options.has("members"):
            say_state(group)
            print_members(group, verbose=verbose)
        elif options.has("state"):
            say_state(group)
            print_state(group, verbose=verbose)
        else:
            rows = offset_rows(admin, group, verbose=verbose)
            say_state(group)
            if rows:
                columns = [*OFFSET_COLUMNS]
                if verbose:
                    columns.insert(3, EPOCH_COLUMN)
                print_table(columns, rows)


def known(name: str, described: GroupDescription | KafkaError) -> GroupDescription:
    """Older brokers describe unknown groups as dead; we treat them as an error."""
    if isinstance(described, KafkaError):
        raise described
    if described.state == "Dead":
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")
    return described


def say_state(group: GroupDescription) -> None:
    if group.state == "Empty":
        print(f"\nConsumer group '{group.name}' has no active members.", file=sys.stderr)
    elif group.state in ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"):
        print(f"\nWarning: Consumer group '{group.name}' is rebalancing.", file=sys.stderr)


def offset_rows(admin: Admin, group: GroupDescription, *, verbose: bool) -> list[list[str]]:
    """Assigned partitions, members with most first; then unassigned ones."""
    committed = admin.groups.offsets(group.name)
    assigned = {partition for member in group.members for partition in member.assignment}
    ends = admin.offsets.find(sorted(assigned | set(committed)))
    rows = []
    for member in sorted(group.members, key=lambda member: -len(member.assignment)):
        for partition in member.assignment or (None,):
            rows.append(_offset_row(group, partition, member, committed, ends, verbose=verbose))
    for partition in sorted(set(committed) - assigned):
        rows.append(_offset_row(group, partition, None, committed, ends, verbose=verbose))
    return rows


def _offset_row(
    group: GroupDescription,
    partition: TopicPartition | None,
    member: MemberDescription | None,
    committed: dict[TopicPartition, OffsetAndMetadata],
    ends: dict[TopicPartition, OffsetAt | KafkaError],
    *,
    verbose: bool,
) -> list[str]:
    current = end = epoch = None
    if partition is not None:
        found = committed.get(partition)
        current = found.offset if found else None
        epoch = found.leader_epoch if found else None
        at = ends.get(partition)
        end = at.offset if isinstance(at, OffsetAt) else None
    lag = None if current is None or end is None else end - current
    return [
        group.name,
        partition.topic if partition else MISSING,
        _shown(partition.partition if partition else None),
        *([_shown(epoch)] if verbose else []),
        _shown(current),
        _shown(end),
        _shown(lag),
        member.id if member else MISSING,
        member.host if member else MISSING,
        member.client_id if member else MISSING,
    ]


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    columns = [*MEMBER_COLUMNS[:-1], MEMBER_LAST_COLUMN]
    if verbose:
        columns = [*MEMBER_COLUMNS, *MEMBER_VERBOSE_COLUMNS]
    with_instances = any(member_.instance_id for member_ in group.members)
    if with_instances:
        columns.insert(2, INSTANCE_COLUMN)
    with_upgrades = verbose and any(member_.upgraded is False for member_ in group.members)
    if with_upgrades:
        columns.append(UPGRADED_COLUMN)
    rows = []
    for member in sorted(group.members, key=lambda member: (-len(member.assignment), member.id)):
        row = [group.name, member.id]
        if with_instances:
            row.append(member.instance_id or MISSING)
        row += [member.host, member.client_id, str(len(member.assignment))]
        if verbose:
            row += [
                _shown(member.epoch),
                assignment_text(member.assignment),
                _shown(group.assignment_epoch),
                assignment_text(member.target or ()),
            ]
        if with_upgrades:
            row.append(MISSING if member.upgraded is None else str(member.upgraded).lower())
        rows.append(row)
    print_table(columns, rows)


def print_state(group: GroupDescription, *, verbose: bool) -> None:
    node = group.coordinator
    row = [
        group.name,
        f"{node.host}:{node.port}  ({node.id})",
        group.assignor or MISSING,
        group.state,
        str(len(group.members)),
    ]
    columns = [*STATE_COLUMNS]
    if verbose:
        columns[4:4] = STATE_VERBOSE_COLUMNS
        row[4:4] = [_shown(group.epoch), _shown(group.assignment_epoch)]
    print_table(columns, [row])


def assignment_text(partitions: Iterable[TopicPartition]) -> str:
    """`orders:0,1;users:3`."""
    topics = groupby(sorted(partitions), key=lambda partition: partition.topic)
    shown = (
        f"{topic}:{','.join(str(partition.partition) for partition in of)}" for topic, of in topics
    )
    return ";".join(shown) or MISSING


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    widths = [
        max([least, *(len(row[index]) for row in rows)]) if least else 0
        for index, (_, least) in enumerate(columns)
    ]
    print()
    for row in ([title for title, _ in columns], *rows):
        print(" ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))


def _shown(value: int | None) -> str:
    return MISSING if value is None else str(value)
