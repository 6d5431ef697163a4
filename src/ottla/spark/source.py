"""`format("ottla")`: topics as DataFrames, and DataFrames into topics.

    spark.readStream.format("ottla").option("kafka.bootstrap.servers", ...).option("subscribe", "t")

These classes only implement Spark's interface; other modules do the work. Spark creates them in
three places: where a query is planned, in a process that lives as long as the streaming query, and
in the workers that read. The sink (`ottla.spark.sink`) does the writing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import OffsetRange
from ottla.clock import SystemClock
from ottla.spark.input_partitions import TaskRanges, plan_input_partitions, ranges_by_host
from ottla.spark.limits import OptionError
from ottla.spark.offset_reader import OffsetReader, batch_ranges
from ottla.spark.offsets import Json, clock_of, from_json, ranges_between, to_json, with_clock
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.redaction import hide_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

NAME: Final = "ottla"
FIRST_CONTACT_S: Final = 10.0
SCHEMA: Final = (
    "key binary, value binary, topic string, partition int, offset bigint,"
    " timestamp timestamp, timestampType int"
)
WORKED: Final = "task int, rows binary"
HEADERS: Final = ", headers array<struct<key:string,value:binary>>"


class OttlaDataSource(DataSource):
    """Spark creates one per `load` and `save`, with its options."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return schema_of(read_options(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        return BatchReader(read_options(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        return StreamReader(read_options(self.options, streaming=True), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ottla.spark.sink.writers import batch_writer  # readers do not need it

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from ottla.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


class OttlaInputPartition(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: TaskRanges, tick_ms: int | None = None) -> None:
        self.ranges = ranges
        self.tick_ms = tick_ms

    def __repr__(self) -> str:
        return f"Part({', '.join(map(str, self.ranges))})"


class BatchReader(DataSourceReader):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        brokers = driver_brokers(self._options)
        try:
            return input_partitions(self._options, batch_ranges(self._options, brokers))
        finally:
            brokers.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema
        self._following: OffsetReader | None = None
        self._brokers: ClusterClient | None = None
        self._initial: Json | None = None

    def initialOffset(self) -> Json:  # noqa: N802
        """Always returns its first answer. Spark calls it before and after `latestOffset` of the
        first batch: a second look-up of `latest` would skip the records in between."""
        if self._initial is None:
            self._initial = self._timed(to_json(self._follow().begin()))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Tells Spark that there is a limit; the options have its value."""
        if self._options.records_max is not None:
            return ReadMaxRows(self._options.records_max)
        if self._options.records_min is not None:
            return ReadMinRows(self._options.records_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        limited = not isinstance(limit, ReadAllAvailable)
        return self._timed(to_json(self._follow().latest(from_json(start), limit=limited)))

    def reportLatestOffset(self) -> Json | None:  # noqa: N802
        ends = self._follow().ends
        return None if ends is None else to_json(ends)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._follow().stop_at_present_end()

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        found = input_partitions(self._options, ranges_between(from_json(start), from_json(end)))
        return ticking(found, clock_of(end)) if self._options.ticks else found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._options, self._schema, partition)

    def commit(self, end: Json) -> None:
        """Commits nothing: the query's checkpoint has the offsets."""
        self._follow().batch_ran()

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    def _timed(self, offsets: Json) -> Json:
        """A new time makes new offsets, so a query with ticks has a batch at every trigger."""
        return with_clock(offsets, SystemClock().now_ms()) if self._options.ticks else offsets

    def _follow(self) -> OffsetReader:
        """Created on first use, because a reader is also pickled for workers, which need none."""
        if self._following is None:
            self._brokers = driver_brokers(self._options)
            self._following = OffsetReader(self._options, self._brokers)
        return self._following


def driver_brokers(options: ReadOptions) -> ClusterClient:
    """The driver's client, which reports a wrong address after FIRST_CONTACT_S."""
    return ClusterClient(options.servers, options.settings, first_contact_s=FIRST_CONTACT_S)


def schema_of(options: ReadOptions) -> str:
    if options.layout:
        from ottla.rows.schema import Layout

        return Layout.from_json(options.layout).spark_schema()
    if options.work:
        return WORKED
    return SCHEMA + (HEADERS if options.with_headers else "")


def check_schema(options: ReadOptions, schema: StructType) -> None:
    """Rejects a user's schema; Spark would only compare the number of columns."""
    fixed = schema_of(options)
    if not options.layout and schema.simpleString() != f"struct<{plain(fixed)}>":
        raise OptionError(
            "Kafka source has a fixed schema and cannot be set with a custom one:"
            f" {fixed}. Leave out .schema(...)"
        )


def plain(schema: str) -> str:
    """`key binary, value binary` -> `key:binary,value:binary`, the format of simpleString()."""
    return schema.replace(", ", ",").replace(" ", ":")


def input_partitions(
    options: ReadOptions, ranges: Sequence[OffsetRange]
) -> list[OttlaInputPartition]:
    if options.hosts is not None:
        return [OttlaInputPartition(ranges_) for ranges_ in ranges_by_host(ranges, options.hosts)]
    tasks = plan_input_partitions(
        ranges,
        partitions_min=options.partitions_min,
        partition_records_max=options.partition_records_max,
    )
    return [OttlaInputPartition(task) for task in tasks]


def ticking(found: list[OttlaInputPartition], now_ms: int | None) -> list[OttlaInputPartition]:
    """Adds the tick to the first input partition, which may be otherwise empty."""
    first, *others = found or [OttlaInputPartition(())]
    return [OttlaInputPartition(first.ranges, now_ms), *others]


def read_part(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """Ignores the empty partition that Spark makes up for a batch query without any."""
    if not isinstance(partition, OttlaInputPartition):
        return
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.spark.chunks import read_chunks
    from ottla.spark.processing_log import ProcessingLog
    from ottla.spark.rows import LayoutRows, RawRows

    arrow = to_arrow_schema(schema, timezone="UTC")
    if options.work:
        from ottla.spark.chunk_processor import process_chunks

        chunks = read_chunks(options, partition.ranges)
        yield from process_chunks(options.work, chunks, arrow, tick_ms=partition.tick_ms)
        return
    log = ProcessingLog(options.servers, options.settings, options.processing_log)
    rows = (
        LayoutRows(arrow, options.layout, options.registry, log)
        if options.layout
        else RawRows(arrow)
    )
    for chunk in read_chunks(options, partition.ranges):
        yield rows.batch(chunk)
    rows.close()


def register(spark: SparkSession) -> None:
    """Registers the source where Spark has not found `pyspark_ottla` itself."""
    spark.dataSource.register(OttlaDataSource)
    hide_secrets(spark)
