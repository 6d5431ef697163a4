"""The parts of a broker, as request handlers and metrics reach them.

A handler serves one API and may need any part, so it gets all of them, through its context. The
parts themselves never see this: each takes what it needs in its constructor, and only `broker.py`
puts them together. No part may therefore import this module, nor anything that does.

A protocol, because the tests have brokers of their own: one without sockets for administrative
requests, and one of the simulation that has only what replication needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.broker.access import Access
    from ottla.broker.authentication_counts import AuthenticationCounts
    from ottla.broker.broker_connections import BrokerConnections
    from ottla.broker.failure_detector import FailureDetector
    from ottla.broker.fetch_sessions import FetchSessions
    from ottla.broker.group_coordinator_service import GroupCoordinatorService
    from ottla.broker.large_requests import LargeRequests
    from ottla.broker.producer_ids import ProducerIds
    from ottla.broker.quotas import ClientQuotas
    from ottla.broker.replication import Replication
    from ottla.broker.schema_validation import SchemaValidation
    from ottla.broker.share.partitions import SharePartitions
    from ottla.broker.telemetry import Telemetry
    from ottla.broker.transaction_coordinator_service import TransactionCoordinatorService
    from ottla.broker.transaction_markers import MarkerWriter
    from ottla.broker.verification import Verification
    from ottla.clock import WatchedClock
    from ottla.cluster.controller import Controller
    from ottla.cluster.image import BrokerRegistration, MetadataImage, PartitionRegistration
    from ottla.cluster.metadata_cache import MetadataCache
    from ottla.cluster.runtime_settings import RuntimeSettings
    from ottla.cluster.store import SessionState
    from ottla.config import ServerConfig
    from ottla.replica.partitions import Partitions
    from ottla.storage.store import LogStore


class BrokerParts(Protocol):
    """What a broker consists of, and the few answers that take two of its parts."""

    node_id: int
    clock: WatchedClock
    config: ServerConfig  # replaced as a whole when a config is changed at run time

    # the cluster
    metadata: MetadataCache
    settings: RuntimeSettings
    controller: Controller
    failure_detector: FailureDetector
    connections: BrokerConnections

    # the data path
    store: LogStore
    partitions: Partitions
    replication: Replication
    fetch_sessions: FetchSessions
    schema_validation: SchemaValidation
    large_requests: LargeRequests

    # the coordinators
    groups: GroupCoordinatorService
    shares: SharePartitions
    producer_ids: ProducerIds
    transactions: TransactionCoordinatorService
    verification: Verification
    markers: MarkerWriter

    # what clients may do
    access: Access | None  # None: without an authorizer everything is allowed
    quotas: ClientQuotas
    telemetry: Telemetry
    disabled_apis: frozenset[int]  # of features that are off

    @property
    def image(self) -> MetadataImage:
        """The cluster as it is now."""

    @property
    def session_state(self) -> SessionState | None:
        """Of the session with ZooKeeper; None where the metadata is this broker's own."""

    @property
    def authentication_counts(self) -> AuthenticationCounts: ...

    def endpoints(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        """Every live broker with the address for clients of this listener."""

    def endpoints_of_late(self, listener: str) -> Iterator[tuple[BrokerRegistration, str, int]]:
        """The same, and the brokers that died within the last seconds."""

    def reachable(self, listener: str) -> frozenset[int]:
        """The live brokers that have this listener."""

    def offline_replicas(self, topic: str, partition: PartitionRegistration) -> list[int]:
        """Replicas on brokers that are dead, and ours if its log directory has failed."""

    def check_security(self, config: ServerConfig) -> None:
        """ConfigError if the listeners cannot take this configuration while they run."""

    async def auto_create(self, topic: str) -> None:
        """Create a topic that a client needs; KafkaError if that fails."""

    async def caught_up(self) -> None:
        """Wait until every log of this broker's partitions exists."""
