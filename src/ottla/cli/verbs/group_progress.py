"""How far a group has read, whether consumers, share consumers or tasks are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal, overload

from ottla.client.admin import Admin
from ottla.client.describing import GroupDescription
from ottla.client.offsets import OffsetAt
from ottla.client.record import TopicPartition
from ottla.client.shares import ShareOffset
from ottla.errors import ErrorCode, KafkaError

Row = dict[str, int | str | None]


@overload
def described(admin: Admin, name: str) -> GroupDescription: ...
@overload
def described(admin: Admin, name: str, *, may_miss: Literal[True]) -> GroupDescription | None: ...
def described(admin: Admin, name: str, *, may_miss: bool = False) -> GroupDescription | None:
    """A group of any type, whose type only its broker knows."""
    kinds = {each.name: each.type for each in admin.groups.list_all()}
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
    """Each partition that the group has offsets of, or that a member reads."""
    shared = group.type == "Share"
    current = current_offsets(admin, group.name, shared=shared)
    # Behind a share group's start lie records that are done: its broker counts, we can't.
    lags = _share_lags(admin, group.name) if shared else {}
    readers = {each: member for member in group.members for each in member.assignment}
    crowd = Counter(each for member in group.members for each in member.assignment)
    partitions = sorted(set(current) | set(readers))
    ends = admin.offsets.find(partitions)
    rows: list[Row] = []
    for each in partitions:
        at = ends[each]
        end = at.offset if isinstance(at, OffsetAt) else None
        offset = current.get(each)
        reader = readers.get(each)
        row: Row = {
            "topic": each.topic,
            "partition": each.partition,
            "offset": offset,
            "end": end,
            "lag": None if offset is None or end is None else end - offset,
            "member": reader.id if reader else None,
            "client": reader.client_id if reader else None,
            "host": reader.host if reader else None,
        }
        if shared:  # members read it together
            row = {key: row[key] for key in ("topic", "partition", "offset", "end")}
            row |= {"lag": lags.get(each), "members": crowd[each]}
        rows.append(row)
    return rows


def _share_lags(admin: Admin, name: str) -> dict[TopicPartition, int | None]:
    found = admin.shares.offsets(name)
    return {each: at.lag for each, at in found.items() if isinstance(at, ShareOffset)}


def current_offsets(admin: Admin, name: str, *, shared: bool) -> dict[TopicPartition, int]:
    """What consumers have committed; where a share group starts."""
    if not shared:
        return {each: found.offset for each, found in admin.groups.offsets(name).items()}
    return {
        each: found.start_offset
        for each, found in admin.shares.offsets(name).items()
        if isinstance(found, ShareOffset) and found.start_offset is not None
    }


def alter_offsets(
    admin: Admin, name: str, plan: Mapping[TopicPartition, int], *, shared: bool
) -> None:
    if not shared:
        admin.groups.alter_offsets(name, plan)
        return
    for each, error in admin.shares.alter_offsets(name, plan).items():
        if error is not None:
            raise KafkaError(error.code, f"{each}: {error}")
