"""DeleteGroups (key 42), v0 to v2 (KIP-229).

Deletes groups that have no members, with all that they have committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


def handle(ctx: Context, request: DeleteGroupsRequest) -> Awaitable[DeleteGroupsResponse]:
    groups = ctx.broker.groups
    answers: list[Answer[DeleteGroupsResponse]] = []

    def token() -> Answer[DeleteGroupsResponse]:
        answers.append(Answer())
        return answers[-1]

    names = request.groups_names
    outcomes = groups.coordinator.delete_groups(names, tokens=token, now_ms=ctx.now_ms)
    for outcome in outcomes:
        groups.carry_out(outcome, ctx.now_ms)
    return _gather(answers)


async def _gather(answers: list[Answer[DeleteGroupsResponse]]) -> DeleteGroupsResponse:
    """Each partition of `__consumer_offsets` answers for its own groups."""
    gathered = DeleteGroupsResponse()
    for answer in answers:
        result = answer.result()
        part = await result if isinstance(result, asyncio.Future) else result
        gathered.results.extend(part.results)
    return gathered
