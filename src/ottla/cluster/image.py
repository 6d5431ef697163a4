"""The cluster as one broker knows it at one moment: plain, immutable, safe to keep.

Handlers read `broker.image` and see one consistent state to the end of a request, whatever changes
meanwhile; the next image is another object (`metadata.py` makes it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.auth.acls import Acl
from ottla.auth.tokens import DelegationToken
from ottla.config import Listener

NO_LEADER = -1

QuotaEntity = tuple[tuple[str, str | None], ...]
"""Whom a quota is for: (client-id, name) and (user, name) in this order, one of them, or (ip,
name). The name None is the default of its kind."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class SupportedFeature(NamedTuple):
    """The levels of a feature that a broker's program supports (KIP-584)."""

    name: str
    level_min: int
    level_max: int


@dataclass(slots=True, frozen=True)
class Broker:
    """A live broker: where it listens, and which of its lives this is.

    `shutting_down`: it is in controlled shutdown, and joins no in-sync set any more (KIP-841).
    """

    id: int
    epoch: int
    listeners: tuple[Listener, ...]
    rack: str | None
    shutting_down: bool = False
    features: tuple[SupportedFeature, ...] = ()

    def listener(self, name: str) -> Listener | None:
        """Where clients of this listener find the broker."""
        for listener in self.listeners:
            if listener.name == name:
                return listener
        return None


@dataclass(slots=True, frozen=True)
class Partition:
    """Who holds a partition and who leads it. `version` is that of its state in the store.

    While it is reassigned (KIP-455) `replicas` has both those that it shall have and those that it
    had: `adding` must catch up before `removing` may go.
    """

    index: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    version: int
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas that it shall have in the end."""
        return tuple(each for each in self.replicas if each not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas that it had before it was reassigned."""
        return tuple(each for each in self.replicas if each not in self.adding)


@dataclass(slots=True, frozen=True)
class Config:
    """What was set for a topic, a broker or a group; `version` is None where nothing is stored."""

    values: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None


@dataclass(slots=True, frozen=True)
class Topic:
    """A topic: partitions in the order of their indexes, and its own configs."""

    name: str
    id: bytes
    partitions: tuple[Partition, ...]
    config: Config
    version: int

    @property
    def configs(self) -> Mapping[str, str]:
        """What was set for this topic alone, by Kafka's names."""
        return self.config.values

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].target)


@dataclass(slots=True, frozen=True)
class StoredAcls:
    """The rules for one resource pattern, which lie under one key."""

    acls: frozenset[Acl]
    version: int


@dataclass(slots=True, frozen=True)
class StoredToken:
    """A delegation token, and the version of its key."""

    token: DelegationToken
    version: int


@dataclass(slots=True, frozen=True)
class Image:
    """The whole cluster. `broker_configs` has '' for the cluster-wide defaults, `feature_levels`
    only what was set (`features_version` counts how often; None: never)."""

    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, Broker] = field(default_factory=dict)
    topics: Mapping[str, Topic] = field(default_factory=dict)
    names_by_id: Mapping[bytes, str] = field(default_factory=dict)
    broker_configs: Mapping[str, Config] = field(default_factory=dict)
    group_configs: Mapping[str, Config] = field(default_factory=dict)
    client_metrics_configs: Mapping[str, Config] = field(default_factory=dict)
    quotas: Mapping[QuotaEntity, Config] = field(default_factory=dict)  # and SCRAM credentials
    acls: Mapping[tuple[int, int, str], StoredAcls] = field(default_factory=dict)
    tokens: Mapping[str, StoredToken] = field(default_factory=dict)
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    features_version: int | None = None

    def active_epochs(self) -> dict[int, int]:
        """The epochs of brokers that may join in-sync sets: those that aren't shutting down."""
        return {each.id: each.epoch for each in self.brokers.values() if not each.shutting_down}

    def topic_name(self, topic_id: bytes) -> str:
        """The name behind an id, or '' if no topic has it."""
        return self.names_by_id.get(topic_id, "")

    def broker_config(self, name: str) -> Mapping[str, str]:
        """What was set at run time for a broker, or for all of them ('')."""
        config = self.broker_configs.get(name)
        return config.values if config is not None else {}

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """What was set for this group alone (`config.group_config` makes settings of it)."""
        config = self.group_configs.get(group_id)
        return config.values if config is not None else {}

    def client_metrics(self, name: str) -> Mapping[str, str]:
        """What a subscription to clients' metrics says (KIP-714)."""
        config = self.client_metrics_configs.get(name)
        return config.values if config is not None else {}
