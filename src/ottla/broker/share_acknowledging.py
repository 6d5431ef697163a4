"""Acknowledgements as they come in ShareFetch and ShareAcknowledge: checked, then carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.context import Context
from ottla.broker.share_sessions import Member
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
) -> KafkaError | None:
    """What a member says about one partition: stored when this returns, or why it is not."""
    shares = ctx.broker.shares
    wrong = _wrong(batches, renews=renews)
    if wrong:
        return KafkaError(ErrorCode.INVALID_REQUEST, wrong)
    said = [
        Acknowledged(batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in batches
    ]
    if not shares.settings(member.group_id).renew_enabled and _renews(said):
        message = f"Group {member.group_id} does not renew acquisition locks."
        return KafkaError(ErrorCode.INVALID_REQUEST, message)
    try:
        shares.acknowledge(member, topic_id, index, said, ctx.now_ms)
    except KafkaError as error:
        return error
    return None


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
