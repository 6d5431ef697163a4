"""KIP-73: replicas that are being moved or that catch up leave room for everybody else.

A topic names its throttled replicas (`leader.replication.throttled.replicas` and the same for
followers: `*`, or partition:broker pairs), a broker has a rate for all of them together. Only
followers that are not in sync are held back: nobody falls out of the in-sync set by this.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ottla.broker.rates import Rate
from ottla.cluster.image import Topic
from ottla.config.definition import LONG_MAX

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

ALL: Final = "*"


class ReplicationQuota:
    """What this broker sends to throttled followers, or fetches as one of them."""

    def __init__(self, broker: Broker, config: str, limit: Callable[[], int]) -> None:
        """`config` is that of topics; `limit` gives bytes a second, LONG_MAX for no limit."""
        self._broker = broker
        self._config = config
        self._limit = limit
        self._rate: Rate | None = None
        self._named: dict[str, tuple[Topic, frozenset[int] | None]] = {}  # None: all partitions

    def holds_back(self, topic: str, index: int, now_ms: int) -> bool:
        """Whether a throttled partition has to wait now."""
        rate = self._current()
        return rate is not None and self.names(topic, index) and rate.throttle_ms(now_ms) > 0

    def record(self, topic: str, index: int, size: int, now_ms: int) -> None:
        rate = self._current()
        if rate is not None and self.names(topic, index):
            rate.record(size, now_ms)

    def names(self, topic: str, index: int) -> bool:
        """Whether the topic's config names this broker's replica."""
        found = self._broker.image.topics.get(topic)
        if found is None or self._config not in found.configs:
            return False
        known = self._named.get(topic)
        if known is None or known[0] is not found:
            text = found.configs[self._config]
            known = self._named[topic] = (found, named(text, self._broker.node_id))
        return known[1] is None or index in known[1]

    def _current(self) -> Rate | None:
        limit = self._limit()
        if limit >= LONG_MAX:
            self._rate = None
        elif self._rate is None or self._rate.limit != limit:
            config = self._broker.config
            self._rate = Rate(
                limit,
                count=config.replication_quota_window_num,
                window_ms=1000 * config.replication_quota_window_size_seconds,
            )
        return self._rate


def named(text: str, broker_id: int) -> frozenset[int] | None:
    """The partitions that are throttled on this broker; None for all."""
    if text.strip() == ALL:
        return None
    pairs = [pair.strip().partition(":") for pair in text.split(",") if pair.strip()]
    return frozenset(int(index) for index, _, broker in pairs if int(broker) == broker_id)
