"""Callers that wait until an offset of one partition is committed, in the order of the offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import ErrorCode

# Called once: with NONE when the offset is committed, else with the reason why this broker will
# not see it committed.
CommitCallback = Callable[[ErrorCode], None]


class CommitWaiter(NamedTuple):
    """A caller that waits for the high watermark to reach `offset`."""

    offset: int
    callback: CommitCallback
    needs_min_isr: bool  # acks=all: fails as soon as too few replicas are in sync


class CommitWaiters:
    """The waiters of one partition. A callback may add others, or move the high watermark."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[CommitWaiter] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, waiter: CommitWaiter) -> None:
        """Nearly always at the end: only a repeated batch waits for an earlier offset."""
        waiting = self._waiting
        if not waiting or waiting[-1].offset <= waiter.offset:
            waiting.append(waiter)
        else:
            index = len(waiting)
            while index and waiting[index - 1].offset > waiter.offset:
                index -= 1
            waiting.insert(index, waiter)

    def reached(self, high_watermark: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].offset <= high_watermark:
            waiting.popleft().callback(ErrorCode.NONE)

    def too_few(self) -> None:
        """Fewer replicas are in sync than min.insync.replicas. acks=all fails, although the records
        are in the log, because they have fewer copies than their producer asked for."""
        failed = [waiter for waiter in self._waiting if waiter.needs_min_isr]
        if failed:
            self._waiting = deque(waiter for waiter in self._waiting if not waiter.needs_min_isr)
        for waiter in failed:
            waiter.callback(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def end(self, code: ErrorCode) -> None:
        """Another broker leads now: this one cannot know whether these are committed."""
        waiters, self._waiting = self._waiting, deque()
        for waiter in waiters:
            waiter.callback(code)
