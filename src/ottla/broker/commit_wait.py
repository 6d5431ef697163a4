"""Waits until a partition's log is committed: until all in-sync replicas have it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.broker.promise import Promise, all_of
from ottla.errors import ErrorCode
from ottla.replica.partition import Partition

R = TypeVar("R")

CommitCallback = Callable[[ErrorCode], None]


def is_committed(partition: Partition) -> bool:
    """True if the whole log is committed."""
    return partition.high_watermark >= partition.log.end_offset


def when_committed(
    partition: Partition, callback: CommitCallback, *, timeout_ms: int | None = None
) -> None:
    """Call `callback` with NONE once the present log is committed, which may be at once.

    Else call it with one of these codes; the records may still be committed later:

        NOT_LEADER_OR_FOLLOWER   another broker leads the partition, and may commit or truncate it
        REQUEST_TIMED_OUT        not within `timeout_ms`
    """
    if is_committed(partition):
        callback(ErrorCode.NONE)
    else:
        _CommitWait(partition, callback, timeout_ms)


class _CommitWait:
    """One wait for the replicas of a partition."""

    __slots__ = ("_callback", "_loop", "_timer")

    def __init__(
        self, partition: Partition, callback: CommitCallback, timeout_ms: int | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._callback: CommitCallback | None = callback
        self._timer: asyncio.TimerHandle | None = None
        if timeout_ms is not None:
            late = ErrorCode.REQUEST_TIMED_OUT
            self._timer = self._loop.call_later(timeout_ms / 1000, self._finish, late)
        partition.on_committed(partition.log.end_offset, self._committed)

    def _committed(self, code: ErrorCode) -> None:
        """In another turn of the loop, because the caller is still changing the partition."""
        self._loop.call_soon(self._finish, code)

    def _finish(self, code: ErrorCode) -> None:
        callback, self._callback = self._callback, None
        if self._timer is not None:
            self._timer.cancel()
        if callback is not None:
            callback(code)


def read_committed(
    response: R,
    partitions: Iterable[Partition | None],
    refuse: Callable[[R, ErrorCode], R],
    *,
    timeout_ms: int,
) -> R | asyncio.Future[R]:
    """The response, once everything that it was read from is committed."""
    waiting = [
        partition
        for partition in partitions
        if partition is not None and not is_committed(partition)
    ]
    if not waiting:
        return response
    answers = [Promise[ErrorCode]() for _ in waiting]
    for answer, partition in zip(answers, waiting, strict=True):
        when_committed(partition, answer.resolve, timeout_ms=timeout_ms)

    def respond(codes: list[ErrorCode]) -> R:
        lost = next((code for code in codes if code is not ErrorCode.NONE), None)
        return response if lost is None else refuse(response, lost)

    return all_of(answers).then(respond).result()
