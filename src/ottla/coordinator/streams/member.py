"""A member of a streams group: who it is, and how far it has come to what it is to have."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from ottla.coordinator.streams.tasks import StreamsTask, TaskEpochs

JOINS: Final = 0
LEAVES: Final = -1
LEAVES_STATIC: Final = -2


class StreamsMemberState(IntEnum):
    """Kafka's numbers, as they are stored."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


class StreamsMemberAbout(NamedTuple):
    """What a member says of itself. Members of one process share its state directory."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    topology_epoch: int = -1
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()


class StreamsMember(NamedTuple):
    """One member. Immutable, so that what a failed append has to undo is easily kept."""

    member_id: str
    about: StreamsMemberAbout
    state: StreamsMemberState = StreamsMemberState.STABLE
    epoch: int = 0
    previous_epoch: int = -1
    assigned: TaskEpochs = {}  # noqa: RUF012  a mapping that nobody changes
    revoking: TaskEpochs = {}  # noqa: RUF012

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is StreamsMemberState.STABLE and self.epoch == epoch

    def task_epoch(self, task: StreamsTask) -> int | None:
        """Since which epoch it has this task, be it about to give it up."""
        epoch = self.assigned.get(task)
        return self.revoking.get(task) if epoch is None else epoch
