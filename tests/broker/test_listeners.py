"""Several listeners: each client sees the endpoints of the listener that it used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from ottla.broker.broker import Broker
from ottla.cluster.embedded import EmbeddedStore
from ottla.cluster.layout import broker_key
from ottla.config import ServerConfig
from ottla.errors import ErrorCode
from ottla.net.inter_broker_connection import InterBrokerConnection
from ottla.wire.apis import ApiKey
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

BOTH = "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0"
Scenario = Callable[["Pair"], Coroutine[Any, Any, None]]


class Pair:
    """Broker 1 has both listeners, broker 2 only the inter-broker listener."""

    def __init__(self, path: Path) -> None:
        self._store = EmbeddedStore(None)
        self.store = self._store.session()
        self.brokers = [
            Broker(
                ServerConfig(
                    {
                        "log.dirs": str(path / str(node_id)),
                        "node.id": str(node_id),
                        "listeners": listeners,
                        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
                        "inter.broker.listener.name": "INSIDE",
                        "offsets.topic.num.partitions": "1",
                        "ottla.metadata.sync.enable": "false",
                    }
                ),
                meta_store=self._store.session(),
            )
            for node_id, listeners in ((1, BOTH), (2, "INSIDE://127.0.0.1:0"))
        ]

    async def ask(self, listener: str, request: Any, key: ApiKey, answer: Any, **more: Any) -> Any:
        """A client of broker 1, through one of its listeners."""
        where = next(address for address in self.brokers[0].listeners if address.name == listener)
        line = await InterBrokerConnection.open(
            "127.0.0.1", where.port, client_id="test", timeout_s=60
        )
        try:
            return await line.call(request, key, answer, timeout_s=60, **more)
        finally:
            line.close()


def run(path: Path, scenario: Scenario) -> None:
    async def main() -> None:
        pair = Pair(path)
        for broker in pair.brokers:
            await broker.start()
        try:
            async with asyncio.timeout(60):
                while any(len(broker.image.brokers) < 2 for broker in pair.brokers):
                    await asyncio.sleep(0.005)
                await scenario(pair)
        finally:
            for broker in pair.brokers:
                await broker.stop()

    asyncio.run(main())


def test_metadata_names_the_endpoints_of_the_clients_listener(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        ports = {listener.name: listener.port for listener in pair.brokers[0].listeners}
        second = pair.brokers[1].port
        for listener, expected in (
            ("INSIDE", {1: ports["INSIDE"], 2: second}),
            ("OUTSIDE", {1: ports["OUTSIDE"]}),
        ):
            result = await pair.ask(listener, MetadataRequest(), ApiKey.METADATA, MetadataResponse)
            assert {broker.node_id: broker.port for broker in result.brokers} == expected
            result = await pair.ask(
                listener,
                DescribeClusterRequest(),
                ApiKey.DESCRIBE_CLUSTER,
                DescribeClusterResponse,
            )
            assert {broker.broker_id: broker.port for broker in result.brokers} == expected

    run(tmp_path, scenario)


def test_a_leader_without_the_clients_listener_is_not_found(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        made = await pair.ask(
            "OUTSIDE",
            CreateTopicsRequest(
                topics=[
                    CreatableTopic(
                        name="t",
                        num_partitions=-1,
                        replication_factor=-1,
                        assignments=[
                            CreatableReplicaAssignment(partition_index=0, broker_ids=[1]),
                            CreatableReplicaAssignment(partition_index=1, broker_ids=[2]),
                        ],
                    )
                ]
            ),
            ApiKey.CREATE_TOPICS,
            CreateTopicsResponse,
        )
        assert made.topics[0].error_code == 0, made
        request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
        for listener, version, expected in (
            ("INSIDE", 5, [(1, 0), (2, 0)]),
            ("OUTSIDE", 5, [(1, 0), (-1, ErrorCode.LEADER_NOT_AVAILABLE)]),
            ("OUTSIDE", 6, [(1, 0), (-1, ErrorCode.LISTENER_NOT_FOUND)]),
        ):
            result = await pair.ask(
                listener, request, ApiKey.METADATA, MetadataResponse, version=version
            )
            found = [
                (partition.leader_id, partition.error_code)
                for partition in result.topics[0].partitions
            ]
            assert found == expected

    run(tmp_path, scenario)


def test_a_coordinator_is_found_at_the_clients_listener(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        ports = {listener.name: listener.port for listener in pair.brokers[0].listeners}
        for listener in ports:
            found = None
            while found is None or found.coordinators[0].error_code:
                found = await pair.ask(
                    listener,
                    FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]),
                    ApiKey.FIND_COORDINATOR,
                    FindCoordinatorResponse,
                )
                leader = pair.brokers[0].image.topics["__consumer_offsets"].partitions[0].leader
                if leader == 2 and listener == "OUTSIDE":
                    assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                    break
            else:
                port = ports[listener] if leader == 1 else pair.brokers[1].port
                assert found.coordinators[0].port == port

    run(tmp_path, scenario)


def test_all_endpoints_are_registered_in_kafkas_form(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        entry = await pair.store.get(broker_key(1))
        assert entry is not None
        stored = json.loads(entry.value)
        assert stored["endpoints"] == [str(listener) for listener in pair.brokers[0].listeners]
        assert stored["listener_security_protocol_map"] == {
            "INSIDE": "PLAINTEXT",
            "OUTSIDE": "PLAINTEXT",
        }

    run(tmp_path, scenario)
