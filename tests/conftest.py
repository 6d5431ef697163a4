"""What all tests share: signals, and how they are spread over processes (`--dist loadfile`).

Each process has brokers, a Spark and folders of its own, as every run has. The tests of a file stay
together, in their order: fixtures of a module are made once. Files that take long come first, so
that at the end no process waits for another.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests read the supplement of Kafka's messages, which the generator has.
sys.path.append(str(Path(__file__).parents[1] / "tools"))

# A busy machine takes seconds for what takes milliseconds: how long an example takes says nothing.
hypothesis.settings.register_profile(
    "any-machine",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("any-machine")

# The longest first.
LONG = (
    "test_sql_servers.py",
    "test_ksqldb_clients.py",
    "test_compaction.py",
    "test_franz_go.py",
    "test_kafka_tools.py",
    "test_spark_formats.py",
    "test_spark_real_time.py",
    "test_data_directory.py",
    "test_restarts.py",
    "test_kafka_python_own_suite.py",
    "test_java_client.py",
    "test_kafkajs.py",
    "test_kafka_connect.py",
    "test_confluent_quotas.py",
)
FIRST = {name: place for place, name in enumerate(LONG)}

LOGGERS = ("ottla", "ottla.client", "hypercorn", "py4j", "pyspark")
SPARK_TEST_S_MAX = 300
"""The first test waits for the JVM, and a busy machine for everything."""


def pytest_configure() -> None:
    # A shell without job control starts background jobs with SIGINT ignored, and every process that
    # a test starts inherits that: a test that presses Ctrl-C would wait for nothing.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is a line at once: a run that is ended before its summary has still named it."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        reason = report.longreprtext.rstrip().rpartition("\n")[2]
        print(f"\nfailing: {report.nodeid} ({report.when}): {reason}", file=sys.stderr)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several processes
        items.sort(key=lambda item: FIRST.get(item.path.name, len(FIRST)))
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TEST_S_MAX))


def pytest_collection_finish() -> None:
    """Ten thousand tests and their modules stay: no later collection walks over them.

    One that did took half a second on a busy machine, in the middle of whatever was measured.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """The shell and the server turn logging their way; other tests of this process listen, too."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(each.level, each.propagate, list(each.handlers)) for each in loggers]
    yield
    for each, (level, propagate, handlers) in zip(loggers, before, strict=True):
        for handler in set(each.handlers).difference(handlers):
            handler.close()
        each.setLevel(level)
        each.propagate, each.handlers = propagate, handlers


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ottla.spark import archive, session

    # A test run leaves nothing behind that works on.
    os.environ[archive.SWITCH] = "off"
    started = session.start(master="local[2]", app_name="tests")
    yield started
    started.stop()
