"""The labels of tasks in a shuffle: they spread tasks evenly over the shuffle's partitions.

Spark partitions by a hash of the key, so two tasks would often share one of two partitions, and one
core would do the work of both. A task's label is the smallest number that equals the task modulo
the count of tasks and that Spark's hash maps to the wanted partition.
"""

from __future__ import annotations

from typing import Final

SEED: Final = 42
MASK: Final = 0xFFFFFFFF


def labels(tasks: int, partitions: int) -> list[int]:
    return [_label(task, tasks, partitions) for task in range(tasks)]


def place_of(number: int, partitions: int) -> int:
    """The partition that Spark's HashPartitioning chooses for an int."""
    hashed = _murmur3(number & MASK)
    signed = hashed - (1 << 32) if hashed >= 1 << 31 else hashed
    return signed % partitions


def _label(task: int, tasks: int, partitions: int) -> int:
    number = task
    while place_of(number, partitions) != task % partitions:
        number += tasks
    return number


def _murmur3(word: int) -> int:
    """The 32-bit Murmur3 hash of one int, with Spark's seed."""
    k = word * 0xCC9E2D51 & MASK
    k = _rotate(k, 15) * 0x1B873593 & MASK
    h = _rotate(SEED ^ k, 13) * 5 + 0xE6546B64 & MASK
    h ^= 4
    h = (h ^ h >> 16) * 0x85EBCA6B & MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def _rotate(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) & MASK
