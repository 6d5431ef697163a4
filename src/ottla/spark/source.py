"""`format("ottla")`: topics as DataFrames, and DataFrames into topics.

    spark.readStream.format("ottla").option("kafka.bootstrap.servers", ...).option("subscribe", "t")

These classes are what Spark knows, and no more: the work is done by the modules they call. Spark
makes them in three places: where a query is planned, in one process that stays for as long as a
streaming query runs, and in the workers that read. Writing is the sink's: `ottla.spark.sink`.
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
from ottla.client.protocol.fetching import Range
from ottla.clock import SystemClock
from ottla.spark.following import Following, batch_ranges
from ottla.spark.limits import OptionError
from ottla.spark.offsets import Json, clock_of, from_json, ranges_between, to_json, with_clock
from ottla.spark.options import ReadOptions, read_options
from ottla.spark.planning import Task, by_homes, plan
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


class Ottla(DataSource):
    """Spark makes one for each `load` and each `save`, with its options."""

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
        from ottla.spark.sink.writers import batch_writer  # a reader needs none of it

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        from ottla.spark.sink.writers import stream_writer

        return stream_writer(self.options, schema, overwrite)


class Part(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: Task, tick_ms: int | None = None) -> None:
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
            return parts(self._options, batch_ranges(self._options, brokers))
        finally:
            brokers.close()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._options, self._schema, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema
        self._following: Following | None = None
        self._brokers: ClusterClient | None = None
        self._initial: Json | None = None

    def initialOffset(self) -> Json:  # noqa: N802
        """The first answer holds. Spark asks twice, before and after it has asked for the end of
        the first batch: with a second `latest`, what came in between would never be read."""
        if self._initial is None:
            self._initial = self._timed(to_json(self._follow().begin()))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Only so that Spark knows that there is one: the options say how much."""
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
        found = parts(self._options, ranges_between(from_json(start), from_json(end)))
        return ticking(found, clock_of(end)) if self._options.ticks else found

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_part(self._options, self._schema, partition)

    def commit(self, end: Json) -> None:
        """Offsets are kept in the query's checkpoint and nowhere else."""
        self._follow().batch_ran()

    def stop(self) -> None:
        if self._brokers is not None:
            self._brokers.close()

    def _timed(self, offsets: Json) -> Json:
        """Who hears of the clock has something to do whenever Spark asks."""
        return with_clock(offsets, SystemClock().now_ms()) if self._options.ticks else offsets

    def _follow(self) -> Following:
        """Made when it is needed: a reader also travels to the workers, which need none."""
        if self._following is None:
            self._brokers = driver_brokers(self._options)
            self._following = Following(self._options, self._brokers)
        return self._following


def driver_brokers(options: ReadOptions) -> ClusterClient:
    """For whoever starts a query: a wrong address is told soon."""
    return ClusterClient(options.servers, options.settings, first_contact_s=FIRST_CONTACT_S)


def schema_of(options: ReadOptions) -> str:
    if options.layout:
        from ottla.rows.schema import Layout

        return Layout.from_json(options.layout).spark_schema()
    if options.work:
        return WORKED
    return SCHEMA + (HEADERS if options.with_headers else "")


def check_schema(options: ReadOptions, schema: StructType) -> None:
    """Whoever names a schema of their own is told; Spark would only count the columns."""
    fixed = schema_of(options)
    if not options.layout and schema.simpleString() != f"struct<{plain(fixed)}>":
        raise OptionError(
            "Kafka source has a fixed schema and cannot be set with a custom one:"
            f" {fixed}. Leave out .schema(...)"
        )


def plain(schema: str) -> str:
    """`key binary, value binary` as a schema says of itself: `key:binary,value:binary`."""
    return schema.replace(", ", ",").replace(" ", ":")


def parts(options: ReadOptions, ranges: Sequence[Range]) -> list[Part]:
    if options.homes is not None:
        return [Part(each) for each in by_homes(ranges, options.homes)]
    tasks = plan(
        ranges,
        partitions_min=options.partitions_min,
        partition_records_max=options.partition_records_max,
    )
    return [Part(each) for each in tasks]


def ticking(found: list[Part], now_ms: int | None) -> list[Part]:
    """One of them has the tick; if there is nothing else to read, it is all there is."""
    first, *others = found or [Part(())]
    return [Part(first.ranges, now_ms), *others]


def read_part(options: ReadOptions, schema: StructType, partition: InputPartition) -> Iterator[Any]:
    """Spark invents an empty partition where a batch query has none."""
    if not isinstance(partition, Part):
        return
    from pyspark.sql.pandas.types import to_arrow_schema

    from ottla.spark.processing_log import ProcessingLog
    from ottla.spark.reading import read
    from ottla.spark.rows import Raw, Typed

    arrow = to_arrow_schema(schema, timezone="UTC")
    if options.work:
        from ottla.spark.work import worked

        chunks = read(options, partition.ranges)
        yield from worked(options.work, chunks, arrow, tick_ms=partition.tick_ms)
        return
    log = ProcessingLog(options.servers, options.settings, options.processing_log)
    rows = Typed(arrow, options.layout, options.registry, log) if options.layout else Raw(arrow)
    for chunk in read(options, partition.ranges):
        yield rows.batch(chunk)
    rows.close()


def register(spark: SparkSession) -> None:
    """Needed where Spark has not found `pyspark_ottla` by itself."""
    spark.dataSource.register(Ottla)
    hide_secrets(spark)
