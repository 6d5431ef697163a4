"""How much is measured: everything that --quick reduces."""

from __future__ import annotations

from dataclasses import dataclass

SMALL_BYTES = 100
LARGE_BYTES = 1024
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Settings:
    rounds: int
    """Measured rounds; the median is what the table shows."""
    discarded_rounds: int
    """Rounds before those, thrown away: JIT, caches, branch predictors."""
    machine_warm_up_gib: int
    small_count: int
    """Records of 100 B in a throughput run."""
    large_count: int
    """Records of 1 KB in a throughput run."""
    request_seconds: float
    latency_seconds: float
    latency_rate: int
    end_to_end_count: int
    idle_seconds: float
    connections: int
    compaction_count: int
    """Records of 100 B in the log that is cleaned."""
    growth_gib: int
    """Stored bytes at the end of the growth row; 0 leaves the row out."""
    growth_steps: int

    def count(self, size: int) -> int:
        return self.small_count if size == SMALL_BYTES else self.large_count


FULL = Settings(
    rounds=3,
    discarded_rounds=1,
    machine_warm_up_gib=4,
    small_count=8_000_000,
    large_count=1_200_000,
    request_seconds=5.0,
    latency_seconds=15.0,
    latency_rate=1000,
    end_to_end_count=5000,
    idle_seconds=5.0,
    connections=1000,
    compaction_count=3_000_000,
    growth_gib=20,
    growth_steps=10,
)

QUICK = Settings(
    rounds=1,
    discarded_rounds=0,
    machine_warm_up_gib=2,
    small_count=1_500_000,
    large_count=250_000,
    request_seconds=2.0,
    latency_seconds=5.0,
    latency_rate=1000,
    end_to_end_count=2000,
    idle_seconds=3.0,
    connections=1000,
    compaction_count=600_000,
    growth_gib=0,
    growth_steps=2,
)
