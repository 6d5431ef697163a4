"""The configs of streams groups: the broker's, and overrides of single groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class StreamsGroupConfig(NamedTuple):
    """The configs that a group can override; the defaults are Kafka's."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000
    assignment_interval_ms: int = 1_000

    def of_assignment(self) -> dict[str, str]:
        """The configs that the assignor uses; if one changes, there is a new assignment."""
        return {"num.standby.replicas": str(self.num_standby_replicas)}


@dataclass(slots=True, frozen=True)
class StreamsGroupConfigs:
    """`overrides` are by group id."""

    defaults: StreamsGroupConfig = field(default_factory=StreamsGroupConfig)
    overrides: Mapping[str, StreamsGroupConfig] = field(default_factory=dict)
    max_size: int = 2_147_483_647
    enabled: bool = True  # group.coordinator.rebalance.protocols includes "streams"

    def of_group(self, group_id: str) -> StreamsGroupConfig:
        return self.overrides.get(group_id, self.defaults)
