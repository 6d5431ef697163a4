"""Fixtures of the compatibility suites: a broker process, unique names, patience.

`make test` runs everything but `-m maven`; see compat_brokers.py for how to run it on Apache Kafka.
"""

from __future__ import annotations

import os
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from compat_brokers import Broker, start_broker
from compat_spark import connector_session
from compat_streams import KafkaStreams

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

with warnings.catch_warnings():
    # kafka-python reads its schemas at import, through a function that Python 3.11 deprecates.
    warnings.simplefilter("ignore")
    import kafka
    import kafka.admin
    import kafka.protocol.api_key  # noqa: F401

HERE = Path(__file__).parent
# For a slow machine that runs everything at once: anything that takes longer is broken.
PATIENCE_S = 60.0

Until = Callable[[Callable[[], object], str], None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.compat)


@pytest.fixture(scope="session")
def kafka_streams(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaStreams]:
    program = KafkaStreams(tmp_path_factory.mktemp("kafka-streams"))
    yield program
    program.close()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """The broker that all tests share."""
    external = os.environ.get("OTTLA_COMPAT_BOOTSTRAP")
    if external is not None:
        there = Broker(tmp_path_factory.mktemp("external"))
        there.bootstrap = external
        there.port = int(external.rsplit(":", 1)[1])
        yield there
        return
    started = start_broker(tmp_path_factory.mktemp("broker"))
    yield started
    alive = started.alive()
    exit_code = started.stop() if alive else None
    assert alive, f"the broker died during the tests:\n{started.log_tail()}"
    # A JVM that gets SIGTERM reports 128 + 15.
    assert exit_code in (0, 143), f"the broker left with {exit_code}:\n{started.log_tail()}"


@pytest.fixture(scope="session")
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Starts brokers for one test, which may stop, kill, fill and inspect them."""
    if "OTTLA_COMPAT_BOOTSTRAP" in os.environ:
        pytest.skip("OTTLA_COMPAT_BOOTSTRAP is set: this test needs a broker process of its own")
    brokers: list[Broker] = []

    def start(**settings: str) -> Broker:
        names = {name.replace("_", "."): value for name, value in settings.items()}
        brokers.append(start_broker(tmp_path / f"broker{len(brokers)}", names))
        return brokers[-1]

    yield start
    for entry in brokers:
        if entry.alive():
            entry.kill()


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """Names that no other test, or earlier run on the same broker, has used."""
    return lambda prefix: f"{prefix}-{uuid.uuid4().hex[:10]}"


@pytest.fixture
def topic_name(unique: Callable[[str], str]) -> str:
    return unique("topic")


@pytest.fixture
def group_name(unique: Callable[[str], str]) -> str:
    return unique("group")


@pytest.fixture
def until() -> Until:
    """Waits for a condition; after a timeout the error names it."""

    def wait(condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:.0f} s: {what}"
            time.sleep(0.05)

    return wait


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark with its own Kafka connector, for all tests that use it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_SPARK_ARCHIVE", "off")
        started = connector_session()
    yield started
    started.stop()
