"""Acknowledgements in ShareFetch and ShareAcknowledge: validated, then stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.partitions import Refusal
from ottla.broker.share.sessions import ShareMember
from ottla.coordinator.share.partition import ShareAcknowledgementBatch
from ottla.coordinator.share.record_state import AcknowledgeType
from ottla.errors import ErrorCode, KafkaError


class AcknowledgementBatch(Protocol):
    """The acknowledgement batches of both requests."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def acknowledge(
    ctx: RequestContext,
    member: ShareMember,
    topic_id: bytes,
    index: int,
    batches: Sequence[AcknowledgementBatch],
    *,
    renews: bool,
) -> Promise[Refusal]:
    """Acknowledge records of one partition; resolved when that is stored, or with the error."""
    shares = ctx.broker.shares
    answer = Promise[Refusal]()
    wrong = _wrong(batches, renews=renews)
    if wrong:
        answer.resolve(KafkaError(ErrorCode.INVALID_REQUEST, wrong))
        return answer
    acknowledgements = [
        ShareAcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
        for batch in batches
    ]
    if not shares.settings(member.group_id).renew_enabled and _renews(acknowledgements):
        message = f"Group {member.group_id} does not renew acquisition locks."
        answer.resolve(KafkaError(ErrorCode.INVALID_REQUEST, message))
        return answer
    return shares.acknowledge(member, topic_id, index, acknowledgements, ctx.now_ms)


def _renews(acknowledgements: Sequence[ShareAcknowledgementBatch]) -> bool:
    return any(AcknowledgeType.RENEW in batch.types for batch in acknowledgements)


def _wrong(batches: Sequence[AcknowledgementBatch], *, renews: bool) -> str:
    """Why acknowledgements are invalid, whatever is acquired; empty if they are valid."""
    allowed = {int(type_) for type_ in AcknowledgeType}
    if not renews:
        allowed.discard(AcknowledgeType.RENEW)
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
