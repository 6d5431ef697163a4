"""One Spark for all tests of a process: starting one takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ottla.spark import archive, session

    # A test run leaves nothing behind that works on.
    os.environ[archive.SWITCH] = "off"
    started = session.start(master="local[2]", app_name="tests")
    yield started
    started.stop()
