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

from ottla.client.acls import Acls
from ottla.client.configs import Configs
from ottla.client.delegation_tokens import DelegationTokens
from ottla.client.delivery import Setting
from ottla.client.features import Features
from ottla.client.groups import Groups
from ottla.client.offsets import Offsets
from ottla.client.protocol.connection import Node, check
from ottla.client.quorum import Quorum, describe_quorum
from ottla.client.quotas import Quotas
from ottla.client.reassignments import Reassignments
from ottla.client.record import TopicPartition
from ottla.client.session import TIMEOUT_S, Session
from ottla.client.shares import Shares
from ottla.client.streams_groups import StreamsGroups
from ottla.client.topics import Topics
from ottla.client.transactions import Transactions
from ottla.client.users import Users
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
    """`offset_lag` is how far the copy is behind; `is_future`: it replaces the present one."""

    size: int
    offset_lag: int
    is_future: bool


@dataclass(slots=True, frozen=True)
class LogDir:
    """A broker's log directory: what lies in it, and how full its disk is (-1: not known)."""

    broker: int
    path: str
    error_code: int
    total_bytes: int
    usable_bytes: int
    replicas: dict[TopicPartition, LogDirReplica]


class Admin:
    """What can be asked and changed. A failure is a KafkaError, with what the broker said."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._session = session = Session(bootstrap_servers, settings or {}, timeout_s)
        self.topics = Topics(session)
        self.configs = Configs(session)
        self.groups = Groups(session)
        self.shares = Shares(session)
        self.streams_groups = StreamsGroups(session)
        self.transactions = Transactions(session)
        self.offsets = Offsets(session)
        self.quotas = Quotas(session)
        self.acls = Acls(session)
        self.users = Users(session)
        self.delegation_tokens = DelegationTokens(session)
        self.reassignments = Reassignments(session)
        self.features = Features(session)

    def cluster(self) -> ClusterDescription:
        """As it is now: the brokers are asked each time."""
        lines = self._session.lines
        nodes = tuple(lines.nodes(refresh=True).values())
        return ClusterDescription(lines.cluster_id, lines.controller_id, nodes)

    def api_versions(self, node_id: int) -> dict[int, tuple[int, int]]:
        """What a broker serves: API key -> first and last version."""
        return self._session.lines.line(node_id).versions

    def log_dirs(self, node_id: int) -> list[LogDir]:
        answer = self._session.lines.call(
            DescribeLogDirsRequest(topics=None),
            ApiKey.DESCRIBE_LOG_DIRS,
            DescribeLogDirsResponse,
            node_id=node_id,
        )
        check(answer.error_code, "", ApiKey.DESCRIBE_LOG_DIRS)
        return [
            LogDir(
                node_id,
                each.log_dir,
                each.error_code,
                each.total_bytes,
                each.usable_bytes,
                {
                    TopicPartition(topic.name, part.partition_index): LogDirReplica(
                        part.partition_size, part.offset_lag, part.is_future_key
                    )
                    for topic in each.topics
                    for part in topic.partitions
                },
            )
            for each in answer.results
        ]

    def quorum(self) -> Quorum:
        """A KRaft cluster's; a broker of ours says in its error where the metadata is."""
        return describe_quorum(self._session)

    def unregister_broker(self, broker_id: int) -> None:
        """Forget a broker that will not come back."""
        answer = self._session.lines.call(
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
