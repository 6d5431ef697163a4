"""A member of a streams group: its client, its tasks, and how far it is reconciled."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.coordinator.streams.tasks import StreamsTask, TaskEpochs

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2


class StreamsMemberState(IntEnum):
    """Kafka's numbers, as they are stored."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class StreamsGroupMemberMetadata(NamedTuple):
    """What a member declares. Members of one process share its state directory."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


class StreamsGroupMember(NamedTuple):
    """One member. Immutable, so that a failed append is undone by keeping the one before."""

    member_id: str
    metadata: StreamsGroupMemberMetadata
    state: StreamsMemberState = StreamsMemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: TaskEpochs = {}  # noqa: RUF012  a mapping that is never changed
    revoking: TaskEpochs = {}  # noqa: RUF012

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def task_epoch(self, task: StreamsTask) -> int | None:
        """Since which epoch it has this task, even if it has to revoke it."""
        epoch = self.assigned.get(task)
        return self.revoking.get(task) if epoch is None else epoch
