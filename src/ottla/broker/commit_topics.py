"""OffsetCommit and TxnOffsetCommit refuse partitions that do not exist and commit the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol, TypeVar


class CommitPartition(Protocol):
    partition_index: int


class CommitTopic(Protocol):
    partitions: list[Any]


P = TypeVar("P", bound=CommitPartition)


def split_by_existence(partitions: Iterable[P], count: int) -> tuple[list[P], list[int]]:
    """The partitions that exist in a topic with this many, and the indexes of the others."""
    accepted, unknown = [], []
    for partition in partitions:
        if 0 <= partition.partition_index < count:
            accepted.append(partition)
        else:
            unknown.append(partition.partition_index)
    return accepted, unknown


def merge_responses(
    refused: Sequence[CommitTopic], asked: Sequence[CommitTopic], answered: Iterable[CommitTopic]
) -> None:
    """The coordinator has answered for the topics that had partitions left, in their order. Add
    its results to those of the refused partitions."""
    answers = iter(answered)
    for topic, was_asked in zip(refused, asked, strict=True):
        if was_asked.partitions:
            topic.partitions.extend(next(answers).partitions)
