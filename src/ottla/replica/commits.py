"""Those who wait until what they appended is committed, in the order of their offsets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ottla.errors import ErrorCode

# Told once: NONE when it is committed, or why that will not be known here.
Tell = Callable[[ErrorCode], None]


class Commit(NamedTuple):
    """Somebody who waits for the high watermark to reach `offset`."""

    offset: int
    tell: Tell
    needs_min_isr: bool  # acks=all: is told as soon as too few replicas are in sync


class Commits:
    """What waits on one partition. A call may register others, or make the partition move."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[Commit] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, commit: Commit) -> None:
        """Nearly always at the end: only who repeats a batch waits for an earlier offset."""
        waiting = self._waiting
        if not waiting or waiting[-1].offset <= commit.offset:
            waiting.append(commit)
        else:
            place = len(waiting)
            while place and waiting[place - 1].offset > commit.offset:
                place -= 1
            waiting.insert(place, commit)

    def reached(self, high_watermark: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].offset <= high_watermark:
            waiting.popleft().tell(ErrorCode.NONE)

    def too_few(self) -> None:
        """Too few replicas are in sync: who wants a safe copy must not take it for one."""
        told = [each for each in self._waiting if each.needs_min_isr]
        if told:
            self._waiting = deque(each for each in self._waiting if not each.needs_min_isr)
        for each in told:
            each.tell(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def end(self, code: ErrorCode) -> None:
        """We no longer know, or will ever know."""
        told, self._waiting = self._waiting, deque()
        for each in told:
            each.tell(code)
