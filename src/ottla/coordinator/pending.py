"""What producers have committed in transactions that are not decided yet (KIP-98, KIP-447).

It waits, by producer, for the marker that ends the transaction. Of all that is committed for a key,
inside of transactions or not, what was written last holds, whenever the transactions end: Kafka
compares offsets in the log, here the order in which things are put does the same.

    producer 1 commits 5 (open)   producer 2 commits 7, and ends   producer 1 ends: 7 holds
    producer 1 commits 5 (open)   a consumer commits 6             producer 1 ends: 6 holds

One that a later commit has overtaken still keeps its key unstable, until its transaction ends.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Pending(Generic[K, V]):
    """Values by key and producer id."""

    __slots__ = ("_by_key", "_by_producer")

    def __init__(self) -> None:
        # In the order in which they were put; None: overtaken.
        self._by_key: dict[K, dict[int, V | None]] = {}
        self._by_producer: dict[int, dict[K, None]] = {}

    def __contains__(self, key: K) -> bool:
        """Whether a transaction that is open has something for this key."""
        return key in self._by_key

    def __iter__(self) -> Iterator[K]:
        return iter(self._by_key)

    def __len__(self) -> int:
        return len(self._by_key)

    def of(self, key: K) -> Mapping[int, V | None]:
        """A copy of what waits for this key, which `restore` understands."""
        return dict(self._by_key.get(key, {}))

    def put(self, producer_id: int, key: K, value: V | None) -> None:
        waiting = self._by_key.setdefault(key, {})
        waiting.pop(producer_id, None)  # the later one counts, and where it stands
        waiting[producer_id] = value
        self._by_producer.setdefault(producer_id, {})[key] = None

    def overtake(self, key: K) -> None:
        """Something later holds for this key, whatever becomes of the open transactions."""
        waiting = self._by_key.get(key)
        if waiting is not None:
            for producer_id in waiting:
                waiting[producer_id] = None

    def drop(self, key: K) -> None:
        """Nothing waits for this key any more: it was deleted."""
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
        """The producer's transaction is decided: what holds from now on."""
        held: list[tuple[K, V]] = []
        for key in self._by_producer.pop(producer_id, ()):
            waiting = self._by_key[key]
            value = waiting[producer_id]
            if commit and value is not None:
                held.append((key, value))
                for earlier in waiting:
                    if earlier == producer_id:
                        break
                    waiting[earlier] = None
            del waiting[producer_id]
            if not waiting:
                del self._by_key[key]
        return held
