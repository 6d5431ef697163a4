"""What `server.properties` and the configs of single groups say about consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True, frozen=True)
class Timeouts:
    """What a group can have a config of its own for; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000  # at least so much time lies between two targets


@dataclass(slots=True, frozen=True)
class ConsumerConfig:
    """`overrides` are by group id. The first of the assignors is the default."""

    timeouts: Timeouts = field(default_factory=Timeouts)
    overrides: Mapping[str, Timeouts] = field(default_factory=dict)
    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    assigns_elsewhere: bool = False  # whether somebody does the work of large assignments
    enabled: bool = True  # whether group.coordinator.rebalance.protocols names "consumer"

    def of_group(self, group_id: str) -> Timeouts:
        return self.overrides.get(group_id, self.timeouts)

    @property
    def upgrades(self) -> bool:
        return self.migration_policy.lower() in ("bidirectional", "upgrade")

    @property
    def downgrades(self) -> bool:
        return self.migration_policy.lower() in ("bidirectional", "downgrade")
