"""The output of kafka-share-groups --describe."""

from __future__ import annotations

import sys
from typing import Final

from ottla.cli.kafka.group_report import MISSING, Column, assignment_text, print_table
from ottla.cli.kafka.options import Options
from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.share_groups import ShareOffset
from ottla.errors import KafkaError

# A column's title and its minimal width; 0 for the last one, which is not padded.
OFFSET_COLUMNS: Final[tuple[Column, ...]] = (
    ("GROUP", 15),
    ("TOPIC", 15),
    ("PARTITION", 10),
    ("START-OFFSET", 13),
    ("LAG", 0),
)
EPOCH_COLUMN: Final[Column] = ("LEADER-EPOCH", 13)
MEMBER_COLUMNS: Final[tuple[Column, ...]] = (
    ("GROUP", 15),
    ("CONSUMER-ID", 15),
    ("HOST", 15),
    ("CLIENT-ID", 15),
    ("#PARTITIONS", 12),
    ("ASSIGNMENT", 0),
)
MEMBER_EPOCH_COLUMN: Final[Column] = ("MEMBER-EPOCH", 13)
STATE_COLUMNS: Final[tuple[Column, ...]] = (
    ("GROUP", 15),
    ("COORDINATOR (ID)", 25),
    ("STATE", 15),
    ("#MEMBERS", 0),
)
STATE_EPOCH_COLUMNS: Final[tuple[Column, ...]] = (("GROUP-EPOCH", 12), ("ASSIGNMENT-EPOCH", 17))


def describe_groups(admin: Admin, options: Options) -> None:
    names = options.values("group") or [group.name for group in admin.shares.list()]
    described = admin.shares.describe(*dict.fromkeys(names)) if names else {}
    verbose = options.has("verbose")
    for name in sorted(described):
        group = described[name]
        if isinstance(group, KafkaError):
            raise group
        if options.has("members"):
            print_members(group, verbose=verbose)
        elif options.has("state"):
            print_state(group, verbose=verbose)
        else:
            print_offsets(admin, group, verbose=verbose)


def print_offsets(admin: Admin, group: GroupDescription, *, verbose: bool) -> None:
    rows = []
    for partition, found in sorted(admin.shares.offsets(group.name).items()):
        at = found if isinstance(found, ShareOffset) else ShareOffset(None)
        row = [group.name, partition.topic, str(partition.partition)]
        if verbose:
            row.append(_shown(at.leader_epoch))
        rows.append([*row, _shown(at.start_offset), _shown(at.lag)])
    if not rows:
        print(f"\nShare group '{group.name}' has no offset information.", file=sys.stderr)
        return
    columns = [*OFFSET_COLUMNS]
    if verbose:
        columns.insert(3, EPOCH_COLUMN)
    print_table(columns, rows)


def print_members(group: GroupDescription, *, verbose: bool) -> None:
    say_empty(group)
    if not group.members:
        return
    columns = [*MEMBER_COLUMNS]
    if verbose:
        columns.insert(5, MEMBER_EPOCH_COLUMN)
    rows = []
    for member in sorted(group.members, key=lambda member: (-len(member.assignment), member.id)):
        row = [group.name, member.id, member.host, member.client_id, str(len(member.assignment))]
        if verbose:
            row.append(_shown(member.epoch))
        text = assignment_text(member.assignment)
        rows.append([*row, text if member.assignment else ""])
    print_table(columns, rows)


def print_state(group: GroupDescription, *, verbose: bool) -> None:
    say_empty(group)
    node = group.coordinator
    row = [group.name, f"{node.host}:{node.port}  ({node.id})", group.state]
    columns = [*STATE_COLUMNS]
    if verbose:
        columns[3:3] = STATE_EPOCH_COLUMNS
        row += [_shown(group.epoch), _shown(group.assignment_epoch)]
    print_table(columns, [[*row, str(len(group.members))]])


def say_empty(group: GroupDescription) -> None:
    if group.state == "Empty":
        print(f"\nShare group '{group.name}' has no active members.", file=sys.stderr)


def _shown(value: int | None) -> str:
    return MISSING if value is None else str(value)
