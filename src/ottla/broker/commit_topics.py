"""OffsetCommit and TxnOffsetCommit refuse partitions that do not exist, and commit the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar


class Named(Protocol):
    partition_index: int


class Topic(Protocol):
    partitions: list[Any]


P = TypeVar("P", bound=Named)


def existing(partitions: Iterable[P], count: int) -> tuple[list[P], list[int]]:
    """Those of a topic with so many partitions, and the indexes of the others."""
    accepted, unknown = [], []
    for each in partitions:
        if 0 <= each.partition_index < count:
            accepted.append(each)
        else:
            unknown.append(each.partition_index)
    return accepted, unknown


def merge(refused: Sequence[Topic], asked: Sequence[Topic], answered: Iterable[Topic]) -> None:
    """The coordinator has answered for topics that had partitions left, in their order: add that
    to what was refused."""
    answers = iter(answered)
    for topic, was_asked in zip(refused, asked, strict=True):
        if was_asked.partitions:
            topic.partitions.extend(next(answers).partitions)
