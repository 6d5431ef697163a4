"""DeleteGroups (key 42), v0 to v3 (KIP-229).

Deletes groups that have no members, with all that they have committed. Of a share group the states
of its partitions are deleted first (KIP-932): what is left of it then can be deleted again.

v3  a sentence for each error (Kafka 4.4)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer, all_of
from ottla.broker.shares import Refusal
from ottla.coordinator.share.coordination import empty_share_group
from ottla.errors import KafkaError
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    ctx: Context, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    names = request.groups_names
    answer = Answer[DeleteGroupsResponse]()
    emptied = all_of([_delete_states(ctx, name) for name in names])
    emptied.when(lambda refusals: _delete(ctx, names, refusals, answer))
    return answer.result()


def _delete(
    ctx: Context,
    names: list[str],
    refusals: list[Refusal],
    answer: Answer[DeleteGroupsResponse],
) -> None:
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    refused = DeleteGroupsResponse()
    ready = []
    for name, refusal in zip(names, refusals, strict=True):
        if refusal is None:
            ready.append(name)
        else:
            result = DeletableGroupResult(name, refusal.code, refusal.message or None)
            refused.results.append(result)
    answers: list[Answer[DeleteGroupsResponse]] = []

    def token() -> Answer[DeleteGroupsResponse]:
        answers.append(Answer())
        return answers[-1]

    for outcome in groups.coordinator.delete_groups(ready, tokens=token, now_ms=now_ms):
        groups.carry_out(outcome, now_ms)
    all_of(answers).when(lambda parts: answer.give(_gather(refused, parts)))


def _delete_states(ctx: Context, group_id: str) -> Answer[Refusal]:
    """A refusal if there are states of a share group that cannot be deleted now."""
    shares, deleted = ctx.broker.shares, Answer[Refusal]()
    try:
        group = empty_share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError:
        deleted.give(None)  # not ours to delete, which the coordinator says in its own words
        return deleted

    def done(refusals: list[Refusal]) -> None:
        refusal = next((each for each in refusals if each is not None), None)
        if refusal is None:
            shares.forget_group(group_id)
        deleted.give(refusal)

    all_of(
        [
            shares.delete_states(group_id, topic_id, topic.partitions, ctx.now_ms)
            for topic_id, topic in group.initialized.items()
        ]
    ).when(done)
    return deleted


def _gather(
    gathered: DeleteGroupsResponse, parts: list[DeleteGroupsResponse]
) -> DeleteGroupsResponse:
    """Each partition of `__consumer_offsets` answers for its own groups."""
    for part in parts:
        gathered.results.extend(part.results)
    return gathered
