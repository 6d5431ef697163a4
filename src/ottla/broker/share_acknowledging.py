"""Acknowledgements as they come in ShareFetch and ShareAcknowledge: checked, then carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.broker.share_sessions import Member
from ottla.broker.shares import Refusal
from ottla.coordinator.share.partition import Acknowledged
from ottla.coordinator.share.states import Acknowledgement
from ottla.errors import ErrorCode, KafkaError


class Batch(Protocol):
    """What both requests call an acknowledgement batch."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def acknowledge(
    ctx: Context,
    member: Member,
    topic_id: bytes,
    index: int,
    batches: Sequence[Batch],
    *,
    renews: bool,
) -> Answer[Refusal]:
    """What a member says about one partition: stored when the answer comes, or why it is not."""
    shares = ctx.broker.shares
    answer = Answer[Refusal]()
    wrong = _wrong(batches, renews=renews)
    if wrong:
        answer.give(KafkaError(ErrorCode.INVALID_REQUEST, wrong))
        return answer
    said = [
        Acknowledged(batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in batches
    ]
    if not shares.settings(member.group_id).renew_enabled and _renews(said):
        message = f"Group {member.group_id} does not renew acquisition locks."
        answer.give(KafkaError(ErrorCode.INVALID_REQUEST, message))
        return answer
    return shares.acknowledge(member, topic_id, index, said, ctx.now_ms)


def _renews(said: Sequence[Acknowledged]) -> bool:
    return any(Acknowledgement.RENEW in each.types for each in said)


def _wrong(batches: Sequence[Batch], *, renews: bool) -> str:
    """Why acknowledgements make no sense, whatever is acquired; empty if they do."""
    allowed = {int(each) for each in Acknowledgement}
    if not renews:
        allowed.discard(Acknowledgement.RENEW)
    before = -1
    for batch in batches:
        types = batch.acknowledge_types
        if batch.first_offset > batch.last_offset:
            return f"Invalid first offset {batch.first_offset} and last offset {batch.last_offset}."
        if batch.first_offset <= before:
            return f"Offset {batch.first_offset} is acknowledged twice."
        if not types or (
            len(types) > 1 and len(types) != batch.last_offset - batch.first_offset + 1
        ):
            return f"{len(types)} types for {batch.first_offset} to {batch.last_offset}."
        if not allowed.issuperset(types):
            return f"Invalid acknowledge type in {types}."
        before = batch.last_offset
    return ""
