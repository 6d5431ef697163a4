"""Pull queries by Spark: views over what is there now, one SELECT, and its rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.failures import cause_of
from ottla.queries.launcher import activate
from ottla.rows.errors import SqlError
from ottla.rows.schema import DELETED, ROWOFFSET, Column
from ottla.rows.types import Kind, SqlType, spark_name, struct
from ottla.sql.catalog import Source
from ottla.sql.plan.pull import Pull, bounds_of
from ottla.sql.run.rows import python_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from ottla.sql.run.query_runtime import QueryRuntime

_NAMES: Final = {
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INTEGER,
    "smallint": Kind.INTEGER,
    "int": Kind.INTEGER,
    "bigint": Kind.BIGINT,
    "float": Kind.DOUBLE,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "binary": Kind.BYTES,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class Answer:
    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]


class Pulls:
    """One at a time for each session's names: views are named after their sources."""

    def __init__(self, runtime: QueryRuntime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()

    def answer(self, pull: Pull, tables: Mapping[str, pa.Table]) -> Answer:
        """`tables` are rows that somebody has already, by the name of their source; the rest is
        read from its topic."""
        from pyspark.errors import AnalysisException, ParseException

        with self._lock:
            spark = self._runtime.spark.newSession()
            _prepare(spark)
            activate(spark)
            for view, source in pull.views.items():
                self._view(spark, source, tables).createOrReplaceTempView(view)
            try:
                frame = spark.sql(pull.text)
            except (AnalysisException, ParseException) as error:
                raise SqlError(
                    f"Spark can't answer this: {cause_of(error)}",
                    remedy="Names of columns are in upper case unless they are quoted.",
                ) from None
            columns = pull.columns or tuple(
                Column(each.name, sql_type(each.dataType)) for each in frame.schema.fields
            )
            return Answer(columns, list(python_rows(frame.toArrow(), columns)))

    def _view(
        self, spark: SparkSession, source: Source, tables: Mapping[str, pa.Table]
    ) -> DataFrame:
        if source.name in tables:
            return spark.createDataFrame(tables[source.name])
        options = {
            **self._runtime.cluster.read_options(),
            "subscribe": source.topic,
            "kafka.isolation.level": "read_committed",
            "ottla.layout": source.layout.to_json(),
        }
        rows = spark.read.format("ottla").options(**options).load()
        return _current(rows, source) if source.is_table else rows.where(f"NOT {DELETED}")


def _prepare(spark: SparkSession) -> None:
    from ottla.spark import source
    from ottla.sql.run.registered_functions import register_udfs

    source.register(spark)
    register_udfs(spark)


def _current(rows: DataFrame, source: Source) -> DataFrame:
    """The last row of each key, if it is not a deletion."""
    from pyspark.sql.functions import expr

    keys = [each.name for each in source.schema.key] + list(bounds_of(source))
    by = [expr(spark_name(each)) for each in keys]
    last = rows.groupBy(*by).agg(expr(f"max_by(struct(*), {ROWOFFSET}) AS last"))
    return last.selectExpr("last.*").where(f"NOT {DELETED}")


def sql_type(kind: DataType) -> SqlType:
    """Our type for one of Spark's; what we have no type for is shown as it is called."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(kind, DecimalType):
        return SqlType(Kind.DECIMAL, precision=kind.precision, scale=kind.scale)
    if isinstance(kind, ArrayType):
        return SqlType(Kind.ARRAY, element=sql_type(kind.elementType))
    if isinstance(kind, MapType):
        return SqlType(Kind.MAP, key=sql_type(kind.keyType), element=sql_type(kind.valueType))
    if isinstance(kind, StructType):
        return struct(*((each.name, sql_type(each.dataType)) for each in kind.fields))
    name = kind.simpleString().partition("(")[0]
    if name == "time":
        return SqlType(Kind.TIME)
    return SqlType(_NAMES.get(name, Kind.STRING))
