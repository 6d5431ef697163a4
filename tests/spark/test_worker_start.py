"""The place from which Spark's Python processes import pyspark."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.skipif("SPARK_HOME" in os.environ, reason="this Spark was set up by somebody else")
def test_workers_import_pyspark_with_its_bytecode(spark: SparkSession) -> None:
    def origin(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        import pyspark

        list(batches)
        yield pyarrow.RecordBatch.from_pydict({"origin": [pyspark.__file__]})

    rows = spark.range(1).mapInArrow(origin, "origin string").collect()
    assert ".zip" not in rows[0]["origin"]
