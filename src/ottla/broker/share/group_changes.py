"""The last step of a change to a share group's states: record it, then respond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.broker.promise import Promise
from ottla.broker.request_context import RequestContext
from ottla.broker.share.partitions import Refusal
from ottla.coordinator.group_event import GroupEvent
from ottla.coordinator.share.group import ShareGroup
from ottla.coordinator.share.group_requests import change
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.fields import Message

Response = TypeVar("Response", bound=Message)


class ErrorFields(Protocol):
    """A part of a response that can have an error."""

    error_code: int
    error_message: str | None


def record_group_change(
    ctx: RequestContext,
    group: ShareGroup,
    alter: Callable[[GroupEvent], None],
    answer: Promise[Response],
    *,
    response: Response,
    refused: Callable[[ErrorCode], Response],
) -> None:
    """`alter` the group, and respond when that is stored."""
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    try:
        outcome = change(groups.coordinator, group, alter, answer=(answer, response), now_ms=now_ms)
    except KafkaError as error:  # the group has another coordinator by now
        answer.resolve(refused(error.code))
        return
    groups.carry_out(outcome, now_ms)


def set_error(answer: ErrorFields, refusal: Refusal) -> None:
    if refusal is not None:
        answer.error_code = refusal.code
        answer.error_message = refusal.message or None
