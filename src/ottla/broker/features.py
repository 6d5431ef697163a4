"""What this broker can beyond API versions (KIP-584): clients look here before they use it.

A feature has a range of levels that the program supports, and the level which the cluster is at.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Feature(NamedTuple):
    """`level` is what holds in this cluster."""

    name: str
    level_min: int
    level_max: int
    level: int


FEATURES: Final[tuple[Feature, ...]] = (
    Feature("group.version", 0, 1, 1),  # KIP-848
    Feature("share.version", 0, 1, 1),  # KIP-932
    Feature("transaction.version", 0, 2, 2),  # KIP-890
)
