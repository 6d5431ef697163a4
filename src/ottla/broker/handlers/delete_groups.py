"""DeleteGroups (key 42), v0 to v2 (KIP-229).

Deletes groups that have no members, with all that they have committed. Of a share group the states
of its partitions are deleted first (KIP-932): what is left of it then can be deleted again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.coordinator.share.coordination import empty_share_group
from ottla.errors import KafkaError
from ottla.wire.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(ctx: Context, request: DeleteGroupsRequest) -> Awaitable[DeleteGroupsResponse]:
    groups = ctx.broker.groups
    answers: list[Answer[DeleteGroupsResponse]] = []

    def token() -> Answer[DeleteGroupsResponse]:
        answers.append(Answer())
        return answers[-1]

    refused = DeleteGroupsResponse()
    names = [name for name in request.groups_names if _delete_states(ctx, name, refused)]
    outcomes = groups.coordinator.delete_groups(names, tokens=token, now_ms=ctx.now_ms)
    for outcome in outcomes:
        groups.carry_out(outcome, ctx.now_ms)
    return _gather(refused, answers)


def _delete_states(ctx: Context, group_id: str, refused: DeleteGroupsResponse) -> bool:
    """False if there are states of a share group that cannot be deleted now."""
    shares = ctx.broker.shares
    try:
        group = empty_share_group(ctx.broker.groups.coordinator, group_id)
    except KafkaError:
        return True  # not ours to delete, which the coordinator says in its own words
    try:
        for topic_id, topic in group.initialized.items():
            shares.delete_states(group_id, topic_id, topic.partitions, ctx.now_ms)
    except KafkaError as error:
        refused.results.append(DeletableGroupResult(group_id, error.code))
        return False
    shares.forget_group(group_id)
    return True


async def _gather(
    gathered: DeleteGroupsResponse, answers: list[Answer[DeleteGroupsResponse]]
) -> DeleteGroupsResponse:
    """Each partition of `__consumer_offsets` answers for its own groups."""
    for answer in answers:
        result = answer.result()
        part = await result if isinstance(result, asyncio.Future) else result
        gathered.results.extend(part.results)
    return gathered
