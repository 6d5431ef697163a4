"""For all tests: signals, and their distribution over processes (`--dist loadfile`).

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

# A busy machine needs seconds instead of milliseconds, so the time of an example means nothing.
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
REASON_MAX = 500
SPARK_TEST_S_MAX = 300
"""The first test waits for the JVM, and a busy machine for everything."""


def pytest_configure() -> None:
    # A shell without job control starts background jobs with SIGINT ignored, and every process that
    # a test starts inherits that: a test that presses Ctrl-C would wait for nothing.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Prints failures at once, so that an interrupted run has still named them."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        place = report.longreprtext.rstrip().rpartition("\n")[2]
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = " ".join(crash.message.split())[:REASON_MAX] if crash else ""
        print(f"\nfailing: {report.nodeid} ({report.when}): {place}: {reason}", file=sys.stderr)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # one of several worker processes
        items.sort(key=lambda item: FIRST.get(item.path.name, len(FIRST)))
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TEST_S_MAX))


def pytest_collection_finish() -> None:
    """Freezes ten thousand tests and their modules, so that no later collection visits them.

    Such a collection took half a second on a busy machine, during measurements.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def loggers_as_they_were() -> Iterator[None]:
    """The shell and the server change the logging setup; restores it for the other tests."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    before = [(logger.level, logger.propagate, list(logger.handlers)) for logger in loggers]
    yield
    for logger, (level, propagate, handlers) in zip(loggers, before, strict=True):
        for handler in set(logger.handlers).difference(handlers):
            handler.close()
        logger.setLevel(level)
        logger.propagate, logger.handlers = propagate, handlers


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ottla.spark import class_data_archive, session

    # A test run leaves no running process behind.
    os.environ[class_data_archive.SWITCH] = "off"
    started = session.start(master="local[2]", app_name="tests")
    yield started
    started.stop()
