"""DeleteGroups (key 42), v0 to v3 (KIP-229).

Deletes groups that have no members, with their committed offsets. For a share group, the states of
its partitions are deleted first (KIP-932), so that a deletion that fails halfway can be repeated.

v3  an error message for each group (Kafka 4.4)
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.promise import Promise, all_of
from ottla.broker.request_context import RequestContext
from ottla.broker.share.partitions import Refusal
from ottla.coordinator.share.group_requests import empty_share_group
from ottla.errors import KafkaError
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    ctx: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    names = request.groups_names
    answer = Promise[DeleteGroupsResponse]()
    emptied = all_of([_delete_states(ctx, name) for name in names])
    emptied.then(lambda refusals: _delete(ctx, names, refusals, answer))
    return answer.result()


def _delete(
    ctx: RequestContext,
    names: list[str],
    refusals: list[Refusal],
    answer: Promise[DeleteGroupsResponse],
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
    answers: list[Promise[DeleteGroupsResponse]] = []

    def token() -> Promise[DeleteGroupsResponse]:
        answers.append(Promise())
        return answers[-1]

    for outcome in groups.coordinator.delete_groups(ready, tokens=token, now_ms=now_ms):
        groups.carry_out(outcome, now_ms)
    all_of(answers).then(lambda parts: answer.resolve(_gather(refused, parts)))


def _delete_states(ctx: RequestContext, group_id: str) -> Promise[Refusal]:
    """Delete the states of a share group's partitions; a refusal if one of them fails."""
    shares, deleted = ctx.broker.shares, Promise[Refusal]()
    try:
        group = empty_share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError:
        deleted.resolve(None)  # not an empty share group here: the coordinator returns the error
        return deleted

    def done(refusals: list[Refusal]) -> None:
        refusal = next((found for found in refusals if found is not None), None)
        if refusal is None:
            shares.forget_group(group_id)
        deleted.resolve(refusal)

    all_of(
        [
            shares.delete_states(group_id, topic_id, topic.partitions, ctx.now_ms)
            for topic_id, topic in group.initialized.items()
        ]
    ).then(done)
    return deleted


def _gather(
    gathered: DeleteGroupsResponse, parts: list[DeleteGroupsResponse]
) -> DeleteGroupsResponse:
    """Merge the responses: each partition of `__consumer_offsets` answers for its groups."""
    for part in parts:
        gathered.results.extend(part.results)
    return gathered
