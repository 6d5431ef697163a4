"""`format("ottla")`: topics as DataFrames, and DataFrames into topics.

    spark.readStream.format("ottla").option("kafka.bootstrap.servers", ...).option("subscribe", "t")

This class is what Spark knows. Writing is the sink's: `ottla.spark.sink`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, DataSourceWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME = "ottla"
SINK = "ottla.spark.sink"


class Ottla(DataSource):
    """Spark makes one for each `load` and each `save`, with its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        sink = import_module(SINK)
        return cast(DataSourceWriter, sink.batch_writer(self.options, schema, overwrite))

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        sink = import_module(SINK)
        return cast(DataSourceStreamWriter, sink.stream_writer(self.options, schema, overwrite))


def register(spark: SparkSession) -> None:
    """Needed where Spark has not found `pyspark_ottla` by itself."""
    spark.dataSource.register(Ottla)
