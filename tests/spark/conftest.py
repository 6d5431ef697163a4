"""One Spark for all tests of a process: starting one takes seconds."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


LOGGERS = ("ottla", "ottla.client", "hypercorn", "py4j", "pyspark")
SPARK_TEST_S_MAX = 300
"""The first test waits for the JVM, and a busy machine for everything."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(SPARK_TEST_S_MAX))


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
