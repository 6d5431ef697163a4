"""One Spark for all tests of a process: starting one takes seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from ottla.spark import session

    started = session.start(master="local[2]", app_name="tests")
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()
