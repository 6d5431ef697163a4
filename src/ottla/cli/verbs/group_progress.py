"""The progress of a group: of consumers, share consumers or tasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, overload

from ottla.client.admin import Admin
from ottla.client.group_descriptions import GroupDescription
from ottla.client.offsets import OffsetAt
from ottla.client.record import TopicPartition
from ottla.client.share_groups import ShareOffset
from ottla.errors import ErrorCode, KafkaError

Row = dict[str, int | str | None]


@overload
def described(admin: Admin, name: str) -> GroupDescription: ...
@overload
def described(admin: Admin, name: str, *, may_miss: Literal[True]) -> GroupDescription | None: ...
def described(admin: Admin, name: str, *, may_miss: bool = False) -> GroupDescription | None:
    """A group of any type, which only its coordinator knows."""
    kinds = {group.name: group.type for group in admin.groups.list_all()}
    group: GroupDescription | KafkaError
    if kinds.get(name) == "Share":
        group = admin.shares.describe(name)[name]
    elif kinds.get(name) == "Streams":
        found = admin.streams_groups.describe(name)[name]
        group = found if isinstance(found, KafkaError) else found.as_group()
    else:
        group = admin.groups.describe(name)[name]
    if isinstance(group, GroupDescription) and group.state != "Dead":
        return group
    if isinstance(group, KafkaError) and group.code != ErrorCode.GROUP_ID_NOT_FOUND:
        raise group
    if may_miss:
        return None
    raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name} does not exist")


def progress(admin: Admin, group: GroupDescription) -> list[Row]:
    """The partitions that the group has offsets for, or that a member reads."""
    shared = group.type == "Share"
    current = current_offsets(admin, group.name, shared=shared)
    # Records after a share group's start offset may be done: only its broker can count the lag.
    lags = _share_lags(admin, group.name) if shared else {}
    readers = {partition: member for member in group.members for partition in member.assignment}
    crowd = Counter(partition for member in group.members for partition in member.assignment)
    partitions = sorted(set(current) | set(readers))
    ends = admin.offsets.find(partitions)
    rows: list[Row] = []
    for partition in partitions:
        at = ends[partition]
        end = at.offset if isinstance(at, OffsetAt) else None
        offset = current.get(partition)
        reader = readers.get(partition)
        row: Row = {
            "topic": partition.topic,
            "partition": partition.partition,
            "offset": offset,
            "end": end,
            "lag": None if offset is None or end is None else end - offset,
            "member": reader.id if reader else None,
            "client": reader.client_id if reader else None,
            "host": reader.host if reader else None,
        }
        if shared:  # several members read the same partition
            row = {key: row[key] for key in ("topic", "partition", "offset", "end")}
            row |= {"lag": lags.get(partition), "members": crowd[partition]}
        rows.append(row)
    return rows


def _share_lags(admin: Admin, name: str) -> dict[TopicPartition, int | None]:
    found = admin.shares.offsets(name)
    return {partition: at.lag for partition, at in found.items() if isinstance(at, ShareOffset)}


def current_offsets(admin: Admin, name: str, *, shared: bool) -> dict[TopicPartition, int]:
    """Committed offsets, or a share group's start offsets."""
    if not shared:
        return {partition: found.offset for partition, found in admin.groups.offsets(name).items()}
    return {
        partition: found.start_offset
        for partition, found in admin.shares.offsets(name).items()
        if isinstance(found, ShareOffset) and found.start_offset is not None
    }


def alter_offsets(
    admin: Admin, name: str, plan: Mapping[TopicPartition, int], *, shared: bool
) -> None:
    if not shared:
        admin.groups.alter_offsets(name, plan)
        return
    for partition, error in admin.shares.alter_offsets(name, plan).items():
        if error is not None:
            raise KafkaError(error.code, f"{partition}: {error}")
