"""The metadata of the cluster as one broker knows it at one moment: plain, immutable values.

A handler reads `broker.image` once and has a consistent view until its request ends, whatever
changes meanwhile; a change makes a new image (`metadata_cache.py`).
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
"""The entity of a quota: (client-id, name) and (user, name) in this order, one of them, or (ip,
name). The name None is the default of its type."""

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


class SupportedFeature(NamedTuple):
    """The levels of a feature that a broker's program supports (KIP-584)."""

    name: str
    level_min: int
    level_max: int


@dataclass(slots=True, frozen=True)
class BrokerRegistration:
    """A live broker: its listeners, and the epoch of this registration.

    `shutting_down`: it is in controlled shutdown and may no longer join an ISR (KIP-841).
    """

    id: int
    epoch: int
    listeners: tuple[Listener, ...]
    rack: str | None
    shutting_down: bool = False
    features: tuple[SupportedFeature, ...] = ()

    def listener(self, name: str) -> Listener | None:
        """The broker's endpoint for clients of this listener."""
        for listener in self.listeners:
            if listener.name == name:
                return listener
        return None


@dataclass(slots=True, frozen=True)
class PartitionRegistration:
    """A partition's replicas, leader and ISR. `version` is that of its state in the store.

    During a reassignment (KIP-455) `replicas` has both the target and the original replicas:
    `adding` must catch up before `removing` are dropped.
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
        """The replicas after the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment."""
        return tuple(replica for replica in self.replicas if replica not in self.adding)


@dataclass(slots=True, frozen=True)
class StoredConfig:
    """The configs of a topic, a broker or a group; `version` is None if nothing is stored."""

    values: Mapping[str, str] = field(default_factory=dict)
    version: int | None = None


@dataclass(slots=True, frozen=True)
class TopicImage:
    """A topic: its partitions, by index, and its own configs."""

    name: str
    id: bytes
    partitions: tuple[PartitionRegistration, ...]
    config: StoredConfig
    version: int

    @property
    def configs(self) -> Mapping[str, str]:
        """The configs set on this topic, by Kafka's names."""
        return self.config.values

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    @property
    def replication_factor(self) -> int:
        return len(self.partitions[0].target)


@dataclass(slots=True, frozen=True)
class StoredAcls:
    """The ACLs of one resource pattern, which are stored under one key."""

    acls: frozenset[Acl]
    version: int


@dataclass(slots=True, frozen=True)
class StoredToken:
    """A delegation token, and the version of its key."""

    token: DelegationToken
    version: int


@dataclass(slots=True, frozen=True)
class MetadataImage:
    """The whole cluster. `broker_configs` has '' for the cluster-wide defaults; `feature_levels`
    has only levels that were set (`features_version` is their key's version; None: never set)."""

    cluster_id: str = ""
    controller_id: int = -1
    controller_epoch: int = 0
    brokers: Mapping[int, BrokerRegistration] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    names_by_id: Mapping[bytes, str] = field(default_factory=dict)
    broker_configs: Mapping[str, StoredConfig] = field(default_factory=dict)
    group_configs: Mapping[str, StoredConfig] = field(default_factory=dict)
    client_metrics_configs: Mapping[str, StoredConfig] = field(default_factory=dict)
    # Of users, this has the SCRAM credentials, too.
    quotas: Mapping[QuotaEntity, StoredConfig] = field(default_factory=dict)
    acls: Mapping[tuple[int, int, str], StoredAcls] = field(default_factory=dict)
    tokens: Mapping[str, StoredToken] = field(default_factory=dict)
    feature_levels: Mapping[str, int] = field(default_factory=dict)
    features_version: int | None = None

    def active_epochs(self) -> dict[int, int]:
        """The epochs of brokers that may join ISRs: those that are not shutting down."""
        return {
            broker.id: broker.epoch for broker in self.brokers.values() if not broker.shutting_down
        }

    def topic_name(self, topic_id: bytes) -> str:
        """The name of the topic with this id, or '' if there is none."""
        return self.names_by_id.get(topic_id, "")

    def broker_config(self, name: str) -> Mapping[str, str]:
        """The dynamic configs of a broker, or the cluster-wide defaults ('')."""
        config = self.broker_configs.get(name)
        return config.values if config is not None else {}

    def group_config(self, group_id: str) -> Mapping[str, str]:
        """The configs set on this group (`config.group_config` adds the defaults)."""
        config = self.group_configs.get(group_id)
        return config.values if config is not None else {}

    def client_metrics(self, name: str) -> Mapping[str, str]:
        """The configs of a client metrics subscription (KIP-714)."""
        config = self.client_metrics_configs.get(name)
        return config.values if config is not None else {}
