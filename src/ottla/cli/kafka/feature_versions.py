"""Feature levels and the releases of Kafka that introduced them."""

from __future__ import annotations

from typing import Final

from ottla.cli.kafka.tool import ToolError

# The metadata.version of each step of a release, from level 7 on.
METADATA_LEVEL_MIN: Final = 7
METADATA_VERSIONS: Final = (
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
    "4.0-IV0",
    "4.0-IV1",
    "4.0-IV2",
    "4.0-IV3",
    "4.1-IV0",
    "4.1-IV1",
    "4.2-IV0",
    "4.2-IV1",
    "4.3-IV0",
    "4.4-IV0",
    "4.4-IV1",
    "4.4-IV2",
)

# Feature -> the metadata.version with which a new cluster gets level 1, 2, ...
LEVELS: Final = {
    "kraft.version": ("3.9-IV0",),
    "transaction.version": ("4.0-IV2", "4.0-IV2"),
    "group.version": ("4.0-IV0",),
    "eligible.leader.replicas.version": ("4.1-IV0",),
    "share.version": ("4.2-IV0", "4.4-IV0"),
    "streams.version": ("4.2-IV1",),
}
# Feature and level -> the features and levels that it depends on.
DEPENDENCIES: Final = {("eligible.leader.replicas.version", 1): {"metadata.version": 23}}


def metadata_level(release: str) -> int:
    """The level of "4.2-IV0", or the last one of a release ("4.2", "4.2.1")."""
    wanted = ".".join(release.split(".")[:2])
    found = [
        level
        for level, name in enumerate(METADATA_VERSIONS, METADATA_LEVEL_MIN)
        if wanted in (name, name.partition("-")[0])
    ]
    if not found:
        known = ", ".join(METADATA_VERSIONS)
        raise ToolError(
            f"Unknown metadata.version '{release}'. Supported metadata.version are: {known}"
        )
    return found[-1]


def metadata_name(level: int) -> str | None:
    index = level - METADATA_LEVEL_MIN
    return METADATA_VERSIONS[index] if 0 <= index < len(METADATA_VERSIONS) else None


def levels_of(metadata: int) -> dict[str, int]:
    """The level of every feature in a new cluster of this metadata.version."""
    return {
        name: sum(metadata >= metadata_level(start) for start in starts)
        for name, starts in LEVELS.items()
    }
