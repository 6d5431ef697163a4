"""One member of a consumer group.

Immutable: a change makes another member, so the one before can be restored if its records cannot be
stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple, TypeAlias

TopicIdPartition: TypeAlias = tuple[bytes, int]  # topic id, index
# Each partition with the member epoch in which it was assigned (KIP-1251).
PartitionEpochs: TypeAlias = Mapping[TopicIdPartition, int]
PartitionSet: TypeAlias = frozenset[TopicIdPartition]

NO_PARTITIONS: Final[PartitionSet] = frozenset()

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2  # for a while: the instance will rejoin (KIP-345)
NO_EPOCH: Final = -1


class MemberState(IntEnum):
    """How far a member is in its reconciliation; the numbers are stored."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1  # it has to revoke partitions first
    UNRELEASED_PARTITIONS = 2  # other members have not revoked its partitions yet
    UNKNOWN = 127


class ClassicMemberMetadata(NamedTuple):
    """What a classic member sent in its JoinGroup."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(slots=True, frozen=True)
class ConsumerGroupMember:
    """It may consume `assigned`. It may still own `revoking`, and has to revoke that."""

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
    classic: ClassicMemberMetadata | None = None
    assigned: PartitionEpochs = field(default_factory=dict)
    revoking: PartitionEpochs = field(default_factory=dict)

    def is_reconciled(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.member_epoch == epoch

    def assignment_epoch(self, partition: TopicIdPartition) -> int | None:
        epoch = self.assigned.get(partition)
        return self.revoking.get(partition) if epoch is None else epoch
