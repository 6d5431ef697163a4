"""A mill for each test: a broker, an empty folder, the tests' Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from running_streams import Mill

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def mill(spark: SparkSession, tmp_path: Path) -> Iterator[Mill]:
    with LocalCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        opened = Mill(cluster, spark, tmp_path / "50% of the state")
        try:
            yield opened
        finally:
            opened.close()
