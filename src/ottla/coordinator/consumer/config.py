"""The configs of consumer groups: the broker's, and overrides of single groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class ConsumerGroupConfig:
    """The configs that a group can override; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # the minimum time between two assignments


@dataclass(slots=True, frozen=True)
class ConsumerGroupConfigs:
    """`overrides` are by group id. The first of the assignors is the default."""

    timeouts: ConsumerGroupConfig = field(default_factory=ConsumerGroupConfig)
    overrides: Mapping[str, ConsumerGroupConfig] = field(default_factory=dict)
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    assigns_elsewhere: bool = False  # large assignments are computed off the event loop
    enabled: bool = True  # group.coordinator.rebalance.protocols includes "consumer"

    def of_group(self, group_id: str) -> ConsumerGroupConfig:
        return self.overrides.get(group_id, self.timeouts)

    @property
    def upgrades(self) -> bool:
        return self.migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        return self.migration_policy.lower() in ("bidirectional", "downgrade")
