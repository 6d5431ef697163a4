"""A shop for each test: a broker, an empty folder, the tests' Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running_shop import Shop

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[Shop]:
    with LocalCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        opened = Shop(cluster, spark, tmp_path / "state")
        try:
            yield opened
        finally:
            opened.queries.close()
