"""KIP-73: replicas that are being moved, or that catch up, leave bandwidth for everybody else.

A topic names its throttled replicas (`leader.replication.throttled.replicas` and the same for
followers: `*`, or partition:broker pairs). A broker has one rate for all of them together. A
follower in the ISR is never throttled, so a quota removes no replica from an ISR.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla.broker.rates import Rate
from ottla.cluster.image import TopicImage
from ottla.cluster.metadata_cache import MetadataCache
from ottla.config import ServerConfig
from ottla.config.definition import LONG_MAX

ALL_REPLICAS: Final = "*"


class ReplicationQuota:
    """What this broker sends to throttled followers, or fetches as one of them."""

    def __init__(
        self,
        node_id: int,
        metadata: MetadataCache,
        topic_config: str,
        *,
        config: Callable[[], ServerConfig],
        limit: Callable[[ServerConfig], int],
    ) -> None:
        """`topic_config` names the throttled replicas; `limit` is bytes a second, LONG_MAX none."""
        self._node_id = node_id
        self._metadata = metadata
        self._topic_config = topic_config
        self._config = config
        self._limit = limit
        self._rate: Rate | None = None
        # By topic: its image, and the indexes that its config names; None: all partitions.
        self._named: dict[str, tuple[TopicImage, frozenset[int] | None]] = {}

    def holds_back(self, topic: str, index: int, now_ms: int) -> bool:
        """True if this partition is throttled, and the rate is exceeded now."""
        rate = self._current()
        return rate is not None and self.names(topic, index) and rate.throttle_ms(now_ms) > 0

    def record(self, topic: str, index: int, size: int, now_ms: int) -> None:
        rate = self._current()
        if rate is not None and self.names(topic, index):
            rate.record(size, now_ms)

    def names(self, topic: str, index: int) -> bool:
        """True if the topic's config names this broker's replica."""
        found = self._metadata.image.topics.get(topic)
        if found is None or self._topic_config not in found.configs:
            return False
        known = self._named.get(topic)
        if known is None or known[0] is not found:
            text = found.configs[self._topic_config]
            known = self._named[topic] = (found, throttled_partitions(text, self._node_id))
        return known[1] is None or index in known[1]

    def _current(self) -> Rate | None:
        config = self._config()
        limit = self._limit(config)
        if limit >= LONG_MAX:
            self._rate = None
        elif self._rate is None or self._rate.limit != limit:
            self._rate = Rate(
                limit,
                count=config.replication_quota_window_num,
                window_ms=1000 * config.replication_quota_window_size_seconds,
            )
        return self._rate


def throttled_partitions(text: str, broker_id: int) -> frozenset[int] | None:
    """The partitions that are throttled on this broker; None for all."""
    if text.strip() == ALL_REPLICAS:
        return None
    pairs = [pair.strip().partition(":") for pair in text.split(",") if pair.strip()]
    return frozenset(int(index) for index, _, broker in pairs if int(broker) == broker_id)
