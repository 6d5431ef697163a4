"""A broker's metrics, as scraped from its port."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from data_path_broker import Client, batch, broker_config, until
from prometheus_client.parser import text_string_to_metric_families as parse

from ottla.broker.broker import Broker
from ottla.config import ConfigError, ServerConfig
from ottla.testing.manual_clock import ManualClock
from ottla.wire.apis import ApiKey
from ottla.wire.connection import Request
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.fetch import ReplicaState
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.join_group import JoinGroupRequest

REQUESTS = "kafka_network_requestmetrics"
TOPICS = "kafka_server_brokertopicmetrics"
REPLICAS = "kafka_server_replicamanager"


class MeteredClient(Client):
    """Sends requests through the metered application, like a socket."""

    def dispatch(self, request: Request) -> Any:
        return self.broker._server.app.dispatch(self._session, request)


class Scrape:
    def __init__(self, text: str) -> None:
        self.text = text
        self.values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parse(text)
            for sample in family.samples
        }

    def get(self, name: str, **labels: str) -> float | None:
        return self.values.get((name, tuple(sorted(labels.items()))))


Act = Callable[[MeteredClient], Awaitable[None]]


def run(path: Path, act: Act, **properties: str) -> None:
    async def play() -> None:
        config = broker_config(path, **{"metrics_port": "0", **properties})
        broker = Broker(config, clock=ManualClock())
        await broker.start()
        try:
            await act(MeteredClient(broker))
        finally:
            await broker.stop()

    asyncio.run(play())


async def scrape(broker: Broker) -> Scrape:
    def read() -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics") as page:
            return str(page.read().decode())

    return Scrape(await asyncio.to_thread(read))


def test_a_new_broker_is_the_controller_and_under_replicates_nothing(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t", partitions=3)
        found = await scrape(client.broker)
        assert found.get(f"{REPLICAS}_partitioncount") == 3
        assert found.get(f"{REPLICAS}_leadercount") == 3
        assert found.get(f"{REPLICAS}_underreplicatedpartitions") == 0
        assert found.get(f"{REPLICAS}_underminisrpartitioncount") == 0
        controller = "kafka_controller_kafkacontroller"
        assert found.get(f"{controller}_activecontrollercount") == 1
        assert found.get(f"{controller}_activebrokercount") == 1
        assert found.get(f"{controller}_globalpartitioncount") == 3
        assert found.get(f"{controller}_offlinepartitionscount") == 0
        resident = found.get("process_resident_memory_bytes")
        assert resident is not None
        assert resident > 1_000_000

    run(tmp_path, act)


def test_produced_and_fetched_bytes_are_counted_by_topic(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t")
        data = batch(b"one", b"two")
        for version in (12, 13):
            await client.produce("t", data, version)
        await client.fetch("t", 0)
        await client.ask(
            ApiKey.FETCH,
            client.fetch_request("t", {0: 0}, replica_state=ReplicaState(replica_id=5)),
        )
        found = await scrape(client.broker)
        for labels in ({}, {"topic": "t"}):
            assert found.get(f"{TOPICS}_bytesin_total", **labels) == 2 * len(data)
            assert found.get(f"{TOPICS}_messagesin_total", **labels) == 4
            assert found.get(f"{TOPICS}_bytesout_total", **labels) == 2 * len(data)
            assert found.get(f"{TOPICS}_totalproducerequests_total", **labels) == 2
        assert found.get("kafka_log_log_size", topic="t", partition="0") == 2 * len(data)
        assert found.get("kafka_log_log_logendoffset", topic="t", partition="0") == 4
        for name in ("FetchConsumer", "FetchFollower"):
            assert found.get(f"{REQUESTS}_requests_total", request=name, version="18") == 1

    run(tmp_path, act)


def test_errors_are_counted_by_api_and_code(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t")
        await client.produce("t", batch(b"x")[:-1] + b"?")
        await client.produce("nowhere", batch(b"x"), 12)
        await client.fetch("t", 99)
        join = JoinGroupRequest("g", 10, 10, "", None, "consumer", [])
        await client.ask(ApiKey.JOIN_GROUP, join)
        found = await scrape(client.broker)

        def errors(request: str, error: str) -> float | None:
            return found.get(f"{REQUESTS}_errors_total", request=request, error=error)

        assert errors("Produce", "CORRUPT_MESSAGE") == 1
        assert errors("Produce", "UNKNOWN_TOPIC_OR_PARTITION") == 1
        assert errors("FetchConsumer", "OFFSET_OUT_OF_RANGE") == 1
        assert sum(value for (name, _), value in found.values.items() if "_errors" in name) == 4
        assert found.get(f"{TOPICS}_failedproducerequests_total") == 2
        assert found.get(f"{TOPICS}_failedproducerequests_total", topic="t") == 1
        assert found.get(f"{TOPICS}_failedproducerequests_total", topic="nowhere") is None
        assert found.get(f"{TOPICS}_bytesin_total") == 0

    run(tmp_path, act)


def test_a_waiting_fetch_is_counted_and_then_timed(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t")
        request = client.fetch_request("t", {0: 0}, max_wait=30_000)
        end = client.begin(ApiKey.FETCH, request, 18)
        found = await scrape(client.broker)
        assert found.get("ottla_requests_waiting", request="FetchConsumer") == 1
        assert found.get(f"{REQUESTS}_totaltimems_count", request="FetchConsumer") == 0
        assert found.get(f"{REQUESTS}_localtimems_count", request="FetchConsumer") == 1
        data = batch(b"x")
        await MeteredClient(client.broker).produce("t", data)
        await end()
        found = await scrape(client.broker)
        assert found.get("ottla_requests_waiting", request="FetchConsumer") == 0
        assert found.get(f"{REQUESTS}_totaltimems_count", request="FetchConsumer") == 1
        assert found.get(f"{TOPICS}_bytesout_total", topic="t") == len(data)

    run(tmp_path, act)


def test_a_coroutine_is_still_awaited(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.ask(
            ApiKey.FIND_COORDINATOR, FindCoordinatorRequest("g", coordinator_keys=["g"])
        )
        found = await scrape(client.broker)
        count = found.get(f"{REQUESTS}_totaltimems_count", request="FindCoordinator")
        assert count == 1

    run(tmp_path, act)


def test_connections_are_counted_as_they_open_and_close(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        broker = client.broker
        name = "kafka_server_socket_server_metrics_connection"
        _, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        await until(lambda: broker._server.connection_count == 1)
        found = await scrape(broker)
        assert found.get(f"{name}_count", listener="PLAINTEXT") == 1
        writer.close()
        await until(lambda: broker._server.connection_count == 0)
        found = await scrape(broker)
        assert found.get(f"{name}_count", listener="PLAINTEXT") == 0
        assert found.get(f"{name}_creation_total", listener="PLAINTEXT") == 1
        assert found.get(f"{name}_close_total", listener="PLAINTEXT") == 1

    run(tmp_path, act)


def test_a_deleted_topic_is_removed_and_its_bytes_stay_in_the_total(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t")
        data = batch(b"x")
        await client.produce("t", data)
        await client.broker.controller.delete_topics(["t"])
        found = await scrape(client.broker)
        assert found.get(f"{TOPICS}_bytesin_total", topic="t") is None
        assert found.get(f"{TOPICS}_bytesin_total") == len(data)

    run(tmp_path, act)


def test_a_page_of_many_partitions_yields_the_loop(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        await client.create("t", partitions=500)
        await client.broker.caught_up()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        metrics = client.broker._metrics
        assert metrics is not None
        page = await metrics._page()
        counting.cancel()
        assert page.body.count(b'topic="t"') == 5 * 500
        assert turns >= 10

    run(tmp_path, act)


def test_every_name_is_in_the_documentation(tmp_path: Path) -> None:
    documented = (Path(__file__).parents[2] / "docs/metrics.md").read_text()

    async def act(client: MeteredClient) -> None:
        await client.ask(ApiKey.API_VERSIONS, ApiVersionsRequest("x", "1"), 3)
        metrics = client.broker._metrics
        assert metrics is not None
        names = [family.name for family in metrics.families()]
        assert [name for name in names if f"`{name}`" not in documented] == []
        assert len(names) == len(set(names))

    run(tmp_path, act)


def test_without_a_port_the_modules_are_not_imported(tmp_path: Path) -> None:
    program = f"""
import asyncio, sys
from ottla.broker.broker import Broker
from ottla.config import ServerConfig
async def play():
    config = ServerConfig({{"log.dirs": {str(tmp_path)!r}, "listeners": "PLAINTEXT://127.0.0.1:0"}})
    broker = Broker(config)
    await broker.start()
    assert broker._server.app is broker
    assert broker.metrics_port is None
    await broker.stop()
asyncio.run(play())
print([name for name in sys.modules if "metrics" in name and "ottla" in name])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    loaded = done.stdout.decode().strip()
    assert "ottla.metrics" not in loaded
    assert "ottla.broker.metrics" not in loaded


def test_a_port_in_use_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    async def act(client: MeteredClient) -> None:
        port = str(client.broker.metrics_port)
        second = Broker(broker_config(tmp_path / "second", metrics_port=port))
        with pytest.raises(OSError, match=r"metrics\.port"):
            await second.start()

    run(tmp_path, act)


def test_an_invalid_port_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"metrics\.port"):
        ServerConfig({"metrics.port": "70000"})
