"""One broker for all tests of running connectors."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.connect.run.worker_context import WorkerContext
from ottla.testing import LocalCluster


@pytest.fixture(scope="package")
def broker() -> Iterator[LocalCluster]:
    with LocalCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        yield cluster


@pytest.fixture
def worker(broker: LocalCluster) -> WorkerContext:
    """As in a worker's properties file; one offsets partition is faster to read."""
    text = "org.apache.kafka.connect.storage.StringConverter"
    return WorkerContext(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "tests",
            "exactly.once.source.support": "enabled",
            "offset.storage.partitions": "2",
            "key.converter": text,
            "value.converter": text,
            "plugin.path": str(Path(__file__).parent),
        }
    )
