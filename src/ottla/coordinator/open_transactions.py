"""Values that producers have written in transactions that are still open (KIP-98, KIP-447).

They wait, by producer, for the marker that ends the transaction. Of all writes to a key, inside or
outside of transactions, the one that was written last wins, whenever the transactions end. Kafka
compares offsets in the log; here the order of the calls to `put` does the same.

    producer 1 commits 5 (open)   producer 2 commits 7, and ends   producer 1 ends: 7 wins
    producer 1 commits 5 (open)   a consumer commits 6             producer 1 ends: 6 wins

A value that was superseded still keeps its key unstable until its transaction ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class OpenTransactions(Generic[K, V]):
    """Values by key and producer id."""

    __slots__ = ("_by_key", "_by_producer")

    def __init__(self) -> None:
        # In the order in which they were put; None if superseded.
        self._by_key: dict[K, dict[int, V | None]] = {}
        self._by_producer: dict[int, dict[K, None]] = {}

    def __contains__(self, key: K) -> bool:
        """True if an open transaction has written to this key."""
        return key in self._by_key

    def __iter__(self) -> Iterator[K]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def values_of(self, key: K) -> Mapping[int, V | None]:
        """A copy of what waits for this key; `restore` takes it back."""
        return dict(self._by_key.get(key, {}))

    def put(self, producer_id: int, key: K, value: V | None) -> None:
        waiting = self._by_key.setdefault(key, {})
        waiting.pop(producer_id, None)  # the later value counts, and its place in the order
        waiting[producer_id] = value
        self._by_producer.setdefault(producer_id, {})[key] = None

    def supersede(self, key: K) -> None:
        """A later write wins for this key, however the open transactions end."""
        waiting = self._by_key.get(key)
        if waiting is not None:
            for producer_id in waiting:
                waiting[producer_id] = None

    def drop(self, key: K) -> None:
        """The key was deleted, and with it all that waits for it."""
        for producer_id in self._by_key.pop(key, ()):
            keys = self._by_producer[producer_id]
            del keys[key]
            if not keys:
                del self._by_producer[producer_id]

    def restore(self, key: K, before: Mapping[int, V | None]) -> None:
        self.drop(key)
        for producer_id, value in before.items():
            self.put(producer_id, key, value)

    def end(self, producer_id: int, *, commit: bool) -> list[tuple[K, V]]:
        """The producer's transaction has ended: the values that it makes valid."""
        valid: list[tuple[K, V]] = []
        for key in self._by_producer.pop(producer_id, ()):
            waiting = self._by_key[key]
            value = waiting[producer_id]
            if commit and value is not None:
                valid.append((key, value))
                for earlier in waiting:
                    if earlier == producer_id:
                        break
                    waiting[earlier] = None
            del waiting[producer_id]
            if not waiting:
                del self._by_key[key]
        return valid
