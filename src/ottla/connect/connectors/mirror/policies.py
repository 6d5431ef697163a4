"""Replication policies: the names of replicated topics in the target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

HEARTBEATS: Final = "heartbeats"
INTERNAL: Final = ".internal"


class DefaultReplicationPolicy:
    """`orders` of cluster A becomes `A.orders`, which prevents replication cycles."""

    def __init__(self, separator: str = ".") -> None:
        self.separator = separator

    def remote(self, alias: str, topic: str) -> str:
        return f"{alias}{self.separator}{topic}"

    def source_of(self, topic: str) -> str | None:
        """The source cluster of a replicated topic; None if the topic is local."""
        alias, found, rest = topic.partition(self.separator)
        return alias if found and rest else None

    def is_copyable(self, topic: str, target: str) -> bool:
        """False for topics that came from the target: they must not go back."""
        return self.source_of(topic) != target and not self.is_internal(topic)

    def is_internal(self, topic: str) -> bool:
        if topic.startswith("__"):
            return True
        return topic.endswith(INTERNAL) and (
            topic.startswith("mm2") or ".checkpoints." in f".{topic}"
        )

    def is_heartbeats(self, topic: str) -> bool:
        return topic == HEARTBEATS or topic.endswith(f"{self.separator}{HEARTBEATS}")


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Topics keep their names. For one direction only, because it cannot detect cycles."""

    def remote(self, alias: str, topic: str) -> str:
        return super().remote(alias, topic) if self.is_heartbeats(topic) else topic

    def source_of(self, topic: str) -> str | None:
        return super().source_of(topic) if self.is_heartbeats(topic) else None


POLICIES: Final[dict[str, type[DefaultReplicationPolicy]]] = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy,
    "IdentityReplicationPolicy": IdentityReplicationPolicy,
}


def policy_of(settings: Mapping[str, Any]) -> DefaultReplicationPolicy:
    name = settings["replication.policy.class"].rpartition(".")[2]
    return POLICIES[name](settings["replication.policy.separator"])


def offset_syncs_topic(target: str) -> str:
    return f"mm2-offset-syncs.{target}{INTERNAL}"


def checkpoints_topic(source: str) -> str:
    return f"{source}.checkpoints{INTERNAL}"
