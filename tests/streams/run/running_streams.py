"""Running applications, on a broker in this process and the tests' Spark session."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.client import Consumer, Producer
from ottla.streams import Topology
from ottla.streams.run.application import Application

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ottla.testing import LocalCluster

WAIT_S = 240.0

Pair = tuple[bytes | None, bytes | None]


class Mill:
    """Topics, applications over them, and records in and out."""

    def __init__(self, cluster: LocalCluster, spark: SparkSession, state_dir: Path) -> None:
        self.cluster = cluster
        self.spark = spark
        self.state_dir = state_dir
        self.applications: list[Application] = []

    def topics(self, **partitions: int) -> None:
        with self.cluster.admin() as admin:
            for name, count in partitions.items():
                admin.topics.create(name, count)

    def application(self, topology: Topology, name: str = "app", **more: Any) -> Application:
        made = Application(
            topology,
            application_id=name,
            bootstrap_servers=self.cluster.bootstrap_servers,
            state_dir=self.state_dir,
            spark=lambda: self.spark,
            **more,
        )
        self.applications.append(made)
        return made

    def send(self, topic: str, records: Iterable[tuple[Any, Any]], *, at_ms: int = 1000) -> None:
        """Keys and values as text or bytes; times go on by one millisecond."""
        with Producer(self.cluster.bootstrap_servers) as producer:
            for number, (key, value) in enumerate(records):
                time_ms = at_ms + number
                producer.send(topic, _bytes(value), key=_bytes(key), timestamp_ms=time_ms)
            producer.flush()

    def received(self, topic: str, until: Callable[[list[Pair]], bool]) -> list[Pair]:
        """All committed records of a topic, once `until` holds for them."""
        found: list[Pair] = []
        deadline = time.monotonic() + WAIT_S
        with Consumer(
            self.cluster.bootstrap_servers,
            topic,
            auto_offset_reset="earliest",
            settings={"isolation.level": "read_committed"},
        ) as consumer:
            while not until(found):
                assert time.monotonic() < deadline, (topic, found, self.status())
                record = consumer.poll(0.1)
                if record is not None:
                    found.append((record.key, record.value))
        return found

    def status(self) -> list[Any]:
        return [
            (application.state, application.error, application.metrics())
            for application in self.applications
        ]

    def close(self) -> None:
        for application in self.applications:
            application.close()


def last(pairs: Iterable[Pair]) -> dict[str, int]:
    """The last count of each key."""
    return {(key or b"").decode(): int.from_bytes(value or b"", "big") for key, value in pairs}


def _bytes(thing: Any) -> Any:
    return thing.encode() if isinstance(thing, str) else thing
