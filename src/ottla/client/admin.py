"""Admin: topics, configs, groups, transactions, quotas, users and brokers of a cluster.

    with Admin("localhost:9092") as admin:
        admin.topics.create("orders", partitions=3)
        admin.groups.offsets("billing")

librdkafka's admin client does what it can; what it can't goes over `ConnectionPool`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self

from ottla.client.acls import AclAdmin
from ottla.client.admin_session import TIMEOUT_S, AdminSession
from ottla.client.configs import ConfigAdmin
from ottla.client.delegation_tokens import DelegationTokenAdmin
from ottla.client.delivery import Setting
from ottla.client.features import FeatureAdmin
from ottla.client.groups import GroupAdmin
from ottla.client.offsets import OffsetAdmin
from ottla.client.protocol.connection import Node, check
from ottla.client.quorum import Quorum, describe_quorum
from ottla.client.quotas import QuotaAdmin
from ottla.client.reassignments import ReassignmentAdmin
from ottla.client.record import TopicPartition
from ottla.client.share_groups import ShareGroupAdmin
from ottla.client.streams_groups import StreamsGroupAdmin
from ottla.client.topics import TopicAdmin
from ottla.client.transactions import TransactionAdmin
from ottla.client.users import UserAdmin
from ottla.wire.apis import ApiKey
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from ottla.wire.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


@dataclass(slots=True, frozen=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class LogDirReplica(NamedTuple):
    """`offset_lag` is how far the replica is behind; `is_future`: it is to replace the current."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(slots=True, frozen=True)
class LogDirDescription:
    """A broker's log directory: its replicas, and the size of its disk in bytes (-1: unknown)."""

    broker: int
    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, LogDirReplica]


class Admin:
    """Describes and changes a cluster. Failures are KafkaErrors with the broker's message."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._session = session = AdminSession(bootstrap_servers, settings or {}, timeout_s)
        self.topics = TopicAdmin(session)
        self.configs = ConfigAdmin(session)
        self.groups = GroupAdmin(session)
        self.shares = ShareGroupAdmin(session)
        self.streams_groups = StreamsGroupAdmin(session)
        self.transactions = TransactionAdmin(session)
        self.offsets = OffsetAdmin(session)
        self.quotas = QuotaAdmin(session)
        self.acls = AclAdmin(session)
        self.users = UserAdmin(session)
        self.delegation_tokens = DelegationTokenAdmin(session)
        self.reassignments = ReassignmentAdmin(session)
        self.features = FeatureAdmin(session)

    def cluster(self) -> ClusterDescription:
        """As it is now: each call asks the brokers."""
        connections = self._session.connections
        nodes = tuple(connections.nodes(refresh=True).values())
        return ClusterDescription(connections.cluster_id, connections.controller_id, nodes)

    def api_versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """What a broker serves: API key -> first and last version."""
        return self._session.connections.connection(node_id).versions

    def log_dirs(self, node_id: int) -> list[LogDirDescription]:
        answer = self._session.connections.call(
            DescribeLogDirsRequest(topics=None),
            ApiKey.DESCRIBE_LOG_DIRS,
            DescribeLogDirsResponse,
            node_id=node_id,
        )
        check(answer.error_code, "", ApiKey.DESCRIBE_LOG_DIRS)
        return [
            LogDirDescription(
                node_id,
                result.log_dir,
                result.error_code,
                result.total_bytes,
                result.usable_bytes,
                {
                    TopicPartition(topic.name, part.partition_index): LogDirReplica(
                        part.partition_size, part.offset_lag, part.is_future_key
                    )
                    for topic in result.topics
                    for part in topic.partitions
                },
            )
            for result in answer.results
        ]

    def quorum(self) -> Quorum:
        """A KRaft cluster's quorum; Ottla's brokers answer with an error that names their store."""
        return describe_quorum(self._session)

    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back (KIP-185, UnregisterBroker)."""
        answer = self._session.connections.call(
            UnregisterBrokerRequest(broker_id), ApiKey.UNREGISTER_BROKER, UnregisterBrokerResponse
        )
        check(answer.error_code, answer.error_message, ApiKey.UNREGISTER_BROKER)

    def close(self) -> None:
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
