"""Counts of successful and failed authentications, by listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # imported where metrics.port is set
    from ottla.metrics import MetricFamily

PREFIX = "kafka_server_socket_server_metrics"


class AuthenticationCounts:
    """Kafka's authentication metrics: successful, failed, re-authenticated, expired."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {name: Counter() for name in _HELP}
        self._latency_ms_max: dict[str, int] = {}

    def succeeded(
        self, listener: str, *, again: bool, knows_sessions: bool, spent_ms: int = 0
    ) -> None:
        name = "successful_reauthentication" if again else "successful_authentication"
        self._counts[name][listener] += 1
        if again:
            before = self._latency_ms_max.get(listener, 0)
            self._latency_ms_max[listener] = max(before, spent_ms)
        elif not knows_sessions:
            self._counts["successful_authentication_no_reauth"][listener] += 1

    def failed(self, listener: str, *, again: bool = False) -> None:
        name = "failed_reauthentication" if again else "failed_authentication"
        self._counts[name][listener] += 1

    def expired(self, listener: str) -> None:
        self._counts["expired_connections_killed"][listener] += 1

    def count(self, name: str, listener: str) -> int:
        return self._counts[name][listener]

    def families(self) -> Iterator[MetricFamily]:
        from ottla.metrics import by_label

        for name, counts in self._counts.items():
            suffix = "count" if name == "expired_connections_killed" else "total"
            yield by_label(
                f"{PREFIX}_{name}_{suffix}",
                "counter",
                _HELP[name],
                "listener",
                sorted(counts.items()),
            )
        yield by_label(
            f"{PREFIX}_reauthentication_latency_max",
            "gauge",
            "The longest re-authentication, in milliseconds.",
            "listener",
            sorted(self._latency_ms_max.items()),
        )


_HELP = {
    "successful_authentication": "Connections whose client has authenticated.",
    "failed_authentication": "Connections whose client could not authenticate.",
    "successful_reauthentication": "Sessions that were prolonged (KIP-368).",
    "failed_reauthentication": "Sessions that could not be prolonged.",
    "successful_authentication_no_reauth": "Authenticated clients that can't prolong a session.",
    "expired_connections_killed": "Connections closed because their session was over.",
}
