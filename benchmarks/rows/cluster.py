"""Three brokers, three replicas: throughput, latency, catch-up, failover, many partitions.

Each row starts its own cluster, so that nothing of one measurement is left for the next.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import time
from collections.abc import Generator
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from benchmarks import failover, perf_tools, probe
from benchmarks.bench import Bench, last_json, python_module
from benchmarks.clusters import NODE_IDS, Cluster, Node, start_cluster, stored_bytes
from benchmarks.figures import Figure, Meter, cost, rate
from benchmarks.processes import ToolError, run_tool
from benchmarks.settings import LARGE_BYTES, Settings

MB = 1_000_000
REPLICAS = 3
PARTITIONS = 6
WARM_UP_SHARE = 0.25
REQUEST_TIMEOUT_S = 120.0
IN_SYNC_TIMEOUT_S = 300.0
LOOK_EVERY_S = 0.01
EXTRA_TIME_S = 60.0

_numbers = itertools.count(1)


class ClusterRow:
    """What these rows share. No round is discarded, because nothing is kept between rounds."""

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return 0, settings.rounds


@contextlib.contextmanager
def running(bench: Bench, name: str) -> Generator[Cluster, None, None]:
    directory = bench.directory / f"cluster-{name}-{next(_numbers)}"
    cluster = start_cluster(name, directory, bench.commands)
    try:
        yield cluster
    finally:
        cluster.remove()
        os.sync()


def admin(cluster: Cluster) -> AdminClient:
    """Does not log that nodes are down, because that is what is measured."""
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create_topic(cluster: Cluster, topic: str, *, partitions: int = PARTITIONS) -> None:
    client = admin(cluster)
    new = NewTopic(topic, partitions, REPLICAS)
    client.create_topics([new])[topic].result(REQUEST_TIMEOUT_S)
    wait_in_sync(cluster, topic, partitions)


def wait_in_sync(cluster: Cluster, topic: str, partitions: int) -> None:
    """Wait until every node knows a leader and a full ISR for every partition."""
    deadline = time.monotonic() + IN_SYNC_TIMEOUT_S
    for node in cluster.nodes.values():
        client = AdminClient({"bootstrap.servers": f"127.0.0.1:{node.port}", "log_level": 0})
        while not _in_sync(client, topic, partitions):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} is not in sync as node {node.id} sees it")
            time.sleep(LOOK_EVERY_S)


def _in_sync(client: AdminClient, topic: str, partitions: int) -> bool:
    found = client.list_topics(topic, timeout=REQUEST_TIMEOUT_S).topics[topic].partitions
    return len(found) == partitions and all(
        item.leader in NODE_IDS and len(item.isrs) == REPLICAS for item in found.values()
    )


@dataclass(frozen=True, slots=True)
class ReplicatedProduce(ClusterRow):
    """Throughput at full speed, then the time of an acknowledgement at a fixed, modest rate."""

    title: str = "produce to 3 replicas"

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        with running(bench, name) as cluster:
            _warm_up(bench, cluster)
            figures = [self._throughput(bench, cluster, acks) for acks in ("1", "all")]
            for acks in ("1", "all"):
                figures += self._latency(bench, cluster, acks)
        return figures

    def _throughput(self, bench: Bench, cluster: Cluster, acks: str) -> Figure:
        topic = f"produce-{acks}"
        create_topic(cluster, topic)
        count = bench.settings.count(LARGE_BYTES)
        warm_up_count = int(count * WARM_UP_SHARE)
        with Meter(cluster) as meter:
            produced = perf_tools.produce(
                cluster,
                topic,
                payloads=bench.payloads(LARGE_BYTES),
                count=count,
                warm_up_count=warm_up_count,
                acks=acks,
            )
        _delete(cluster, topic)
        cpu_us = meter.us_per(count + warm_up_count)
        return rate(f"{self.title}, acks {acks}, 1 KB", "records/s", produced.rate, cpu_us=cpu_us)

    def _latency(self, bench: Bench, cluster: Cluster, acks: str) -> list[Figure]:
        topic = f"latency-{acks}"
        create_topic(cluster, topic)
        per_s = bench.settings.latency_rate
        count = int(per_s * (bench.settings.latency_seconds + 1))
        command = python_module(
            "benchmarks.ack_latency",
            *("--bootstrap", cluster.bootstrap, "--topic", topic, "--acks", acks),
            *("--count", str(count), "--rate", str(per_s), "--skip", str(per_s)),
        )
        result = last_json(run_tool(command, timeout_s=count / per_s + EXTRA_TIME_S).output)
        name = f"acks {acks} at {per_s:,}/s of 1 KB, 3 replicas"
        return [
            cost(f"{name}, p50", "ms", result["p50_ms"]),
            cost(f"{name}, p99", "ms", result["p99_ms"]),
        ]


@dataclass(frozen=True, slots=True)
class CatchUp(ClusterRow):
    """One node is down while the others take records; then it is started and fetches them."""

    title: str = "catch-up"

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        topic = "catch-up"
        with running(bench, name) as cluster:
            _warm_up(bench, cluster)
            create_topic(cluster, topic)
            late, other = cluster.nodes[NODE_IDS[-1]], cluster.nodes[NODE_IDS[0]]
            late.stop()
            count = bench.settings.count(LARGE_BYTES)
            payloads = bench.payloads(LARGE_BYTES)
            perf_tools.produce(cluster, topic, payloads=payloads, count=count)
            os.sync()
            missing = stored_bytes(other, [topic]) - stored_bytes(late, [topic])
            started_at = time.perf_counter()
            late.start()
            fetching_s = _fetch_time_s(late, other, topic)
            wait_in_sync(cluster, topic, PARTITIONS)
            in_sync_s = time.perf_counter() - started_at
        size = f"{count * LARGE_BYTES / MB:,.0f} MB"
        return [
            rate(f"follower catches up {size}", "MB/s", missing / MB / fetching_s),
            cost(f"start of the follower to in sync again ({size})", "s", in_sync_s),
        ]


def _fetch_time_s(late: Node, other: Node, topic: str) -> float:
    """From its first fetched byte to the last. Both brokers store the same bytes in their files."""
    deadline = time.monotonic() + IN_SYNC_TIMEOUT_S
    start_size, whole = stored_bytes(late, [topic]), stored_bytes(other, [topic])
    first_at = None
    while time.monotonic() < deadline:
        late.check()
        size = stored_bytes(late, [topic])
        if first_at is None and size > start_size:
            first_at = time.perf_counter()
        if size >= whole:
            assert first_at is not None
            return max(time.perf_counter() - first_at, LOOK_EVERY_S)
        time.sleep(LOOK_EVERY_S)
    raise TimeoutError(f"{stored_bytes(late, [topic])} of {whole} bytes after the wait")


@dataclass(frozen=True, slots=True)
class FailoverTime(ClusterRow):
    """The leader of a partition is killed: one that is not the controller, then one that is."""

    title: str = "failover"
    kills: int = 3

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        plain: list[failover.Failover] = []
        with running(bench, name) as cluster:
            _warm_up(bench, cluster)
            for number in range(self.kills):
                controller = probe.controller_of(cluster)
                victim = next(node for node in NODE_IDS if node != controller)
                plain.append(self._kill(cluster, f"failover-{number}", victim))
            both = self._kill(cluster, "failover-both", probe.controller_of(cluster))
        return [
            cost(
                "failover, leader killed", "s", statistics.median(kill.brokers_s for kill in plain)
            ),
            cost(
                "failover, leader killed, as librdkafka sees it",
                "s",
                statistics.median(kill.client_s for kill in plain),
            ),
            cost("failover, leader and controller killed", "s", both.brokers_s),
            cost("failover, both, as librdkafka sees it", "s", both.client_s),
        ]

    def _kill(self, cluster: Cluster, topic: str, victim: int) -> failover.Failover:
        """Kill the leader of a partition; it is back and in the ISR when this returns."""
        others = [node for node in NODE_IDS if node != victim]
        client = admin(cluster)
        new = NewTopic(topic, 1, replica_assignment=[[victim, *others]])
        client.create_topics([new])[topic].result(REQUEST_TIMEOUT_S)
        wait_in_sync(cluster, topic, 1)
        result = failover.fail_over(cluster, topic, victim)
        cluster.nodes[victim].start()
        cluster.wait_until_all_are_up()
        wait_in_sync(cluster, topic, 1)
        return result


@dataclass(frozen=True, slots=True)
class ManyPartitions(ClusterRow):
    """One topic of a thousand partitions, each on all three brokers."""

    title: str = "create 1,000 partitions"
    partitions: int = 1000

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        topic = "many"
        with running(bench, name) as cluster:
            create_topic(cluster, "first")  # one-time work is done now
            client = admin(cluster)
            with Meter(cluster) as meter:
                started_at = time.perf_counter()
                new = NewTopic(topic, self.partitions, REPLICAS)
                client.create_topics([new])[topic].result(REQUEST_TIMEOUT_S)
                answered_s = time.perf_counter() - started_at
                wait_in_sync(cluster, topic, self.partitions)
                known_s = time.perf_counter() - started_at
            first_s = probe.first_records_s(cluster, topic)
        return [
            cost(f"{self.title}, answered", "s", answered_s),
            cost(f"{self.title}, led and known everywhere", "s", known_s),
            cost("CPU spent on that, all nodes", "s", meter.cpu_s),
            cost("a first record to each of them, acks all", "s", first_s),
        ]


def _warm_up(bench: Bench, cluster: Cluster) -> None:
    """A JVM runs interpreted code at first: the same load for both, as in every row."""
    topic = "warm-up"
    create_topic(cluster, topic)
    payloads, count = bench.payloads(LARGE_BYTES), bench.settings.count(LARGE_BYTES) // 2
    for acks in ("1", "all"):
        perf_tools.produce(cluster, topic, payloads=payloads, count=count // 2, acks=acks)
    _delete(cluster, topic)


def _delete(cluster: Cluster, topic: str) -> None:
    client = admin(cluster)
    client.delete_topics([topic])[topic].result(REQUEST_TIMEOUT_S)
    deadline = time.monotonic() + EXTRA_TIME_S
    while any(stored_bytes(node, [topic]) for node in cluster.nodes.values()):
        if time.monotonic() > deadline:
            raise ToolError(f"the files of {topic} are still there")
        time.sleep(LOOK_EVERY_S)
    os.sync()
