"""Brokers that died a moment ago: metadata responses show them for some seconds more.

librdkafka drops a broker that is missing from the metadata. Depending on how its threads run, it
also drops what the same response said of that broker's partitions and coordinators, and asks again
a second later, or (its issue 5511) never. So for some seconds a response shows the new leaders and
the dead broker, too. When it disappears, clients have moved to the new leaders.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.cluster.image import BrokerRegistration, MetadataImage

SHOWN_MS: Final = 10_000


class RecentlyDeadBrokers:
    """Which brokers have died, and when."""

    def __init__(self) -> None:
        self._known: dict[int, BrokerRegistration] = {}
        self._gone: dict[int, tuple[BrokerRegistration, int]] = {}

    def apply(self, image: MetadataImage, now_ms: int) -> None:
        for broker_id, broker in self._known.items():
            if broker_id not in image.brokers:
                self._gone[broker_id] = broker, now_ms
        self._known = dict(image.brokers)
        for broker_id, (_, since_ms) in list(self._gone.items()):
            if broker_id in self._known or not _is_shown(since_ms, now_ms):
                del self._gone[broker_id]

    def shown(self, now_ms: int) -> Iterator[BrokerRegistration]:
        for broker, since_ms in self._gone.values():
            if _is_shown(since_ms, now_ms):
                yield broker


def _is_shown(since_ms: int, now_ms: int) -> bool:
    return 0 <= now_ms - since_ms < SHOWN_MS  # a clock may be set back
