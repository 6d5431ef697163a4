"""How a member of a streams group gets from its current tasks to its target (KIP-1071).

    first   it revokes tasks that are not in its target        UNREVOKED_TASKS, old epoch
    then    it gets the tasks that no other member has         UNRELEASED_TASKS, new epoch
    until   it has all of its target                           STABLE, new epoch

So no task is active twice, and no process opens the state of a task twice: the threads of a process
share one state directory. Pure functions: a member goes in, a member comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.coordinator.streams.member import StreamsGroupMember, StreamsMemberState
from ottla.coordinator.streams.tasks import StreamsTask, TaskEpochs, TaskSet
from ottla.errors import ErrorCode, KafkaError


class StreamsGoal(NamedTuple):
    """A member's target. `owned` is what its heartbeat reports, None if it reports nothing."""

    epoch: int
    target: TaskSet
    owned: TaskSet | None
    is_free: Callable[[StreamsTask], bool]  # no other member has it, or its state open


def reconcile_tasks(member: StreamsGroupMember, goal: StreamsGoal) -> StreamsGroupMember:
    """The member after its next step; the same object if it cannot take one now."""
    if member.state is StreamsMemberState.STABLE:
        return member if member.epoch == goal.epoch else _advance(member, goal, member.epoch)
    if member.state is StreamsMemberState.UNREVOKED_TASKS:
        if _holds(goal, member.revoking):
            return member
        return _advance(member, goal, member.epoch + 1)
    if member.state is StreamsMemberState.UNRELEASED_TASKS:
        return _advance(member, goal, member.epoch)
    if goal.owned is None or goal.owned:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            "The streams group member is in a unknown state. "
            "The member must abandon all its tasks and rejoin.",
        )
    return _advance(member, goal, goal.epoch)


def _advance(
    member: StreamsGroupMember, goal: StreamsGoal, revoking_epoch: int
) -> StreamsGroupMember:
    """`revoking_epoch` becomes the member's epoch if it has to revoke tasks first."""
    kept = {task: epoch for task, epoch in member.assigned.items() if task in goal.target}
    revoked = {task: epoch for task, epoch in member.assigned.items() if task not in goal.target}
    if revoked and _holds(goal, revoked):
        return member._replace(
            state=StreamsMemberState.UNREVOKED_TASKS,
            epoch=revoking_epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            revoking=revoked,
        )
    free = [task for task in goal.target - kept.keys() if goal.is_free(task)]
    whole = len(kept) + len(free) == len(goal.target)
    for task in free:
        kept[task] = goal.epoch
    state = StreamsMemberState.STABLE if whole else StreamsMemberState.UNRELEASED_TASKS
    return member._replace(
        state=state, epoch=goal.epoch, previous_epoch=member.epoch, assigned=kept, revoking={}
    )


def _holds(goal: StreamsGoal, tasks: TaskEpochs) -> bool:
    """Whether the member may still hold any of these; one that does not say may."""
    return goal.owned is None or not goal.owned.isdisjoint(tasks)
