"""Connections to the brokers of one cluster."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self, TypeVar

from ottla.client.bootstrap_servers import parse_bootstrap_servers
from ottla.client.delivery import Setting
from ottla.client.protocol.connection import BrokerConnection, Node, check
from ottla.errors import ErrorCode, KafkaError
from ottla.wire.apis import ApiKey
from ottla.wire.fields import Message
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

R = TypeVar("R", bound=Message)


class ConnectionPool:
    """Connections to the brokers of one cluster, opened at their first use."""

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        settings: Mapping[str, Setting] | None = None,
        timeout_s: float = 30.0,
    ) -> None:
        self._bootstrap = parse_bootstrap_servers(bootstrap_servers)
        self._settings = settings or {}
        self._timeout_s = timeout_s
        self._first: BrokerConnection | None = None
        self._connections: dict[int, BrokerConnection] = {}
        self._nodes: dict[int, Node] = {}
        self.controller_id = -1
        self.cluster_id = ""

    def call(
        self, request: Message, api_key: int, response: type[R], *, node_id: int | None = None
    ) -> R:
        """Send a request to one broker: any that answers, or the one with `node_id`."""
        connection = self.first if node_id is None else self.connection(node_id)
        return connection.call(request, api_key, response)

    @property
    def first(self) -> BrokerConnection:
        """The connection to the first of the bootstrap servers that answers."""
        if self._first is None:
            self._first = self._open_first()
        return self._first

    def connection(self, node_id: int) -> BrokerConnection:
        if node_id not in self._connections:
            node = self.nodes().get(node_id)
            if node is None:
                raise KafkaError(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"broker {node_id} is not available"
                )
            self._connections[node_id] = self._open(node.host, node.port)
        return self._connections[node_id]

    def nodes(self, *, refresh: bool = False) -> dict[int, Node]:
        """Every live broker, by its id. (Metadata may still list a broker that has just died.)"""
        if refresh or not self._nodes:
            answer = self._describe()
            check(answer.error_code, answer.error_message)
            self._nodes = {
                broker.broker_id: Node(broker.broker_id, broker.host, broker.port, broker.rack)
                for broker in answer.brokers
            }
            self.controller_id = answer.controller_id
            self.cluster_id = answer.cluster_id
        return self._nodes

    def _describe(self) -> DescribeClusterResponse:
        """Over a new connection if the old one is closed: brokers close idle connections
        (connections.max.idle.ms), which says nothing about their health."""
        request = DescribeClusterRequest()
        if (old := self._first) is not None:
            try:
                return old.call(request, ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse)
            except KafkaError as error:
                if error.code is not ErrorCode.NETWORK_EXCEPTION:
                    raise
            old.close()
            self._first = None
        return self.call(request, ApiKey.DESCRIBE_CLUSTER, DescribeClusterResponse)

    def close(self) -> None:
        for connection in (*self._connections.values(), *filter(None, [self._first])):
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _open_first(self) -> BrokerConnection:
        failure: KafkaError | None = None
        for host, port in self._bootstrap:
            try:
                return self._open(host, port)
            except KafkaError as error:
                failure = error
        assert failure is not None
        raise failure

    def _open(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(host, port, settings=self._settings, timeout_s=self._timeout_s)
