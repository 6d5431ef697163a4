"""Runs a little of everything that pipelines do on Spark, to load its classes once.

class_data_archive.py stores these classes for later JVMs.

It needs no broker: to the JVM all Python data sources look alike, and here is a small one, which is
also a sink. Its rows have the schema that Streams reads: `task int, rows binary`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME: Final = "ottla_few_rows"
SCHEMA: Final = "task int, rows binary"
BATCHES: Final = 3
ROWS: Final = 4
BATCH_S_MAX: Final = 60


class FewRows(DataSource):
    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: Any) -> DataSourceReader:
        return FewRowsReader()

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802 (Spark's names)
        return FewRowsStreamReader()

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return FewRowsBatchWriter()

    def streamWriter(  # noqa: N802
        self, schema: Any, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        return FewRowsStreamWriter()


class FewRowsReader(DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: Any) -> Iterator[Any]:
        yield from few_rows()


class FewRowsStreamReader(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"batch": 0}

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:  # noqa: N802
        return {"batch": min(int(start["batch"]) + 1, BATCHES)}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: Any) -> Iterator[Any]:
        yield from few_rows()

    def commit(self, end: Any) -> None:
        """Nothing to commit."""


class FewRowsBatchWriter(DataSourceArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return swallow(iterator)

    def commit(self, messages: Any) -> None:
        """The rows are discarded."""


class FewRowsStreamWriter(DataSourceStreamArrowWriter):
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return swallow(iterator)

    def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
        """The rows are discarded."""


def few_rows() -> Iterator[Any]:
    cells = pa.array([b"row"] * ROWS, pa.binary())
    yield pa.RecordBatch.from_pydict({"task": pa.array(range(ROWS), pa.int32()), "rows": cells})


def few(batches: Iterator[Any]) -> Iterator[Any]:
    yield from batches


def swallow(rows: Iterator[Any]) -> WriterCommitMessage:
    for _ in rows:
        pass
    return WriterCommitMessage()


def training_run(spark: SparkSession) -> None:
    spark.sql("SELECT id % 3 k, count(*), max(id) FROM range(100) GROUP BY 1 ORDER BY 1").collect()
    other = spark.newSession()
    other.dataSource.register(FewRows)
    spark.dataSource.register(FewRows)
    rows = spark.read.format(NAME).load()
    rows.write.format("noop").mode("overwrite").save()
    rows.write.format(NAME).mode("append").save()
    with tempfile.TemporaryDirectory(prefix="ottla-training-") as folder:
        _run(_stream(other), Path(folder, "plain"))
        _run(_stream(other).repartition(2, "task").mapInArrow(few, SCHEMA), Path(folder, "tasks"))
        _count(spark, Path(folder, "count"))


def _stream(spark: SparkSession) -> DataFrame:
    return spark.readStream.format(NAME).load()


def _run(rows: DataFrame, folder: Path) -> None:
    writer = rows.writeStream.format(NAME).option("checkpointLocation", str(folder))
    query = writer.trigger(processingTime="100 milliseconds").start()
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def _count(spark: SparkSession, folder: Path) -> None:
    """Spark's own aggregate, whose updates a foreachBatch writes, as in SQL."""

    def write(batch: DataFrame, _: int) -> None:
        rows = batch.selectExpr("cast(count as int) task", "cast('row' as binary) rows")
        rows.write.format(NAME).mode("append").save()

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
    counted = rows.withWatermark("timestamp", "1 second").groupBy("timestamp").count()
    writer = counted.writeStream.foreachBatch(write).outputMode("update")
    query = writer.option("checkpointLocation", str(folder)).trigger(availableNow=True).start()
    query.awaitTermination(BATCH_S_MAX)
