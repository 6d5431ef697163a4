"""One member of a consumer group. Immutable: a change makes another member, so the last one can
be put back should its records not come to be stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

TopicPartition: TypeAlias = tuple[bytes, int]  # topic id, index
Assigned: TypeAlias = Mapping[TopicPartition, int]  # and since which epoch (KIP-1251)
Target: TypeAlias = frozenset[TopicPartition]

NOTHING: Final[Target] = frozenset()

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2  # for a while: the instance comes back (KIP-345)
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """Where a member is on its way from one assignment to the next; the numbers are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to give partitions up first
    UNRELEASED_PARTITIONS = 2  # others have not given up yet what it is to get
    UNKNOWN = 127


class ClassicProtocol(NamedTuple):
    """What a member that speaks the classic protocol said in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(slots=True, frozen=True)
class ConsumerMember:
    """`assigned` is what it may consume, `revoking` what it has to give up and may still hold."""

    member_id: str
    member_epoch: int = 0
    previous_epoch: int = NO_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocol | None = None
    assigned: Assigned = field(default_factory=dict)
    revoking: Assigned = field(default_factory=dict)

    def is_reconciled(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, partition: TopicPartition) -> int | None:
        epoch = self.assigned.get(partition)
        return self.revoking.get(partition) if epoch is None else epoch
