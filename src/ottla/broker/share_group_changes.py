"""The end of a change to a share group's states: the group is told, and then who asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from ottla.broker.context import Context
from ottla.broker.journal import Answer
from ottla.broker.shares import Refusal
from ottla.coordinator.outcome import Turn
from ottla.coordinator.share.coordination import change
from ottla.coordinator.share.group import ShareGroup
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.primitives import Message

Response = TypeVar("Response", bound=Message)


class Refusable(Protocol):
    """A part of an answer that can be an error."""

    error_code: int
    error_message: str | None


def record(
    ctx: Context,
    group: ShareGroup,
    alter: Callable[[Turn], None],
    answer: Answer[Response],
    *,
    response: Response,
    refused: Callable[[ErrorCode], Response],
) -> None:
    """`alter` the group, and answer when that is stored."""
    groups, now_ms = ctx.broker.groups, ctx.broker.clock.now_ms()
    try:
        outcome = change(groups.coordinator, group, alter, answer=(answer, response), now_ms=now_ms)
    except KafkaError as error:  # the group has another coordinator by now
        answer.give(refused(error.code))
        return
    groups.carry_out(outcome, now_ms)


def refuse(answer: Refusable, refusal: Refusal) -> None:
    if refusal is not None:
        answer.error_code = refusal.code
        answer.error_message = refusal.message or None
