"""Where clients find the brokers: each listener's clients get the addresses of that listener."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ottla.broker.recently_dead_brokers import RecentlyDeadBrokers
from ottla.cluster.image import BrokerRegistration
from ottla.cluster.metadata_cache import MetadataCache


class ClientEndpoints:
    """The brokers' addresses in the newest image."""

    def __init__(
        self, metadata: MetadataCache, recently_dead: RecentlyDeadBrokers, now_ms: Callable[[], int]
    ) -> None:
        self._metadata = metadata
        self._recently_dead = recently_dead
        self._now_ms = now_ms
        self._reachable_of: Mapping[int, BrokerRegistration] | None = None
        self._reachable: dict[str, frozenset[int]] = {}  # by listener

    def live(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        """Every live broker with its address."""
        return _addresses(self._metadata.image.brokers.values(), listener)

    def live_or_recent(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        """The same, and the brokers that died within the last seconds."""
        yield from self.live(listener)
        yield from _addresses(self._recently_dead.shown(self._now_ms()), listener)

    def reachable(self, listener: str) -> frozenset[int]:
        """The live brokers that have this listener; cached until the brokers change."""
        brokers = self._metadata.image.brokers
        if self._reachable_of is not brokers:
            self._reachable_of, self._reachable = brokers, {}
        found = self._reachable.get(listener)
        if found is None:
            found = frozenset(broker.id for broker in brokers.values() if broker.listener(listener))
            self._reachable[listener] = found
        return found


def _addresses(
    brokers: Iterable[BrokerRegistration], listener: str
) -> Iterator[tuple[BrokerRegistration, str, int]]:
    for broker in brokers:
        found = broker.listener(listener)
        if found is not None:
            yield broker, found.host, found.port
