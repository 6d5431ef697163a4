"""Compares two graphs of types, pair by pair. Both may be cyclic.

A pair in progress counts as compatible until one of its parts fails (the greatest fixed point). A
pair that fails takes back all conclusions since it began, because they may rest on it; a failure
itself is final, because all assumptions are in favor of compatibility.

Python's stack is short, and a path through cyclic types can be long: below a certain depth a pair
is assumed compatible, and compared later. If it fails then, everything is compared again with that
failure known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from ottla.schemas.limits import PAIR_DEPTH_MAX, STEPS_MAX, TooComplex

Type = TypeVar("Type")
Difference = TypeVar("Difference")


class PairComparison(ABC, Generic[Type, Difference]):
    def __init__(self) -> None:
        self._steps_left = STEPS_MAX
        self._depth = 0
        # Insertion order is the order in which pairs were begun. Schemas keep their types alive, so
        # an id names one type.
        self._assumed: dict[tuple[int, int], None] = {}
        self._failed: dict[tuple[int, int], list[Difference]] = {}
        self._deferred: list[tuple[Type, Type, str]] = []

    @abstractmethod
    def differences(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        """Why this reader can't read this writer; calls `compare` for their parts."""

    def check(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        while True:
            self._assumed.clear()
            found = self.compare(reader, writer, path)
            if found or not self._deferred_fails():
                return found

    def compare(self, reader: Type, writer: Type, path: str) -> list[Difference]:
        self.take_step()
        pair = (id(reader), id(writer))
        if pair in self._assumed:
            return []
        if pair in self._failed:
            return self._failed[pair]
        self._assumed[pair] = None
        if self._depth == PAIR_DEPTH_MAX:
            self._deferred.append((reader, writer, path))
            return []
        self._depth += 1
        found = self.differences(reader, writer, path)
        self._depth -= 1
        if found:
            while self._assumed.popitem()[0] != pair:
                pass
            self._failed[pair] = found
        return found

    def take_step(self, count: int = 1) -> None:
        self._steps_left -= count
        if self._steps_left < 0:
            raise TooComplex(f"more than {STEPS_MAX} pairs of types had to be compared")

    def _deferred_fails(self) -> bool:
        while self._deferred:
            reader, writer, path = self._deferred.pop()
            self._assumed.pop((id(reader), id(writer)), None)
            if self.compare(reader, writer, path):
                self._deferred.clear()
                return True
        return False
