"""Pull queries on Spark: views over the current rows of the sources, and one SELECT."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.queries.failures import cause_of
from ottla.queries.launcher import activate
from ottla.rows.errors import SqlError
from ottla.rows.schema import DELETED, ROWOFFSET, Column
from ottla.rows.types import SqlBaseType, SqlType, spark_name, struct
from ottla.sql.catalog import DataSource
from ottla.sql.plan.spark_pull import SparkPull, bounds_of
from ottla.sql.run.rows import python_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from ottla.sql.run.query_runtime import QueryRuntime

_NAMES: Final = {
    "boolean": SqlBaseType.BOOLEAN,
    "tinyint": SqlBaseType.INTEGER,
    "smallint": SqlBaseType.INTEGER,
    "int": SqlBaseType.INTEGER,
    "bigint": SqlBaseType.BIGINT,
    "float": SqlBaseType.DOUBLE,
    "double": SqlBaseType.DOUBLE,
    "string": SqlBaseType.STRING,
    "binary": SqlBaseType.BYTES,
    "date": SqlBaseType.DATE,
    "timestamp": SqlBaseType.TIMESTAMP,
    "timestamp_ntz": SqlBaseType.TIMESTAMP,
}


@dataclass(frozen=True, slots=True)
class SparkPullResult:
    columns: tuple[Column, ...]
    rows: list[tuple[Any, ...]]


class SparkPullRunner:
    """Runs pull queries, each in its own session, because views have the names of sources."""

    def __init__(self, runtime: QueryRuntime) -> None:
        self._runtime = runtime
        self._lock = threading.Lock()

    def answer(self, pull: SparkPull, tables: Mapping[str, pa.Table]) -> SparkPullResult:
        """Run a query. `tables` are rows in memory by the name of their source; other sources are
        read from their topics."""
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
                    f"Spark can't run this query: {cause_of(error)}",
                    remedy="Unquoted column names are upper case.",
                ) from None
            columns = pull.columns or tuple(
                Column(field.name, sql_type(field.dataType)) for field in frame.schema.fields
            )
            return SparkPullResult(columns, list(python_rows(frame.toArrow(), columns)))

    def _view(
        self, spark: SparkSession, source: DataSource, tables: Mapping[str, pa.Table]
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
    from ottla.sql.run.session import prepare_session

    source.register(spark)
    prepare_session(spark)


def _current(rows: DataFrame, source: DataSource) -> DataFrame:
    """The last row of each key, without tombstones."""
    from pyspark.sql.functions import expr

    keys = [column.name for column in source.schema.key] + list(bounds_of(source))
    by = [expr(spark_name(key)) for key in keys]
    last = rows.groupBy(*by).agg(expr(f"max_by(struct(*), {ROWOFFSET}) AS last"))
    return last.selectExpr("last.*").where(f"NOT {DELETED}")


def sql_type(kind: DataType) -> SqlType:
    """The SQL type for a type of Spark; one without equivalent is shown by its Spark name."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(kind, DecimalType):
        return SqlType(SqlBaseType.DECIMAL, precision=kind.precision, scale=kind.scale)
    if isinstance(kind, ArrayType):
        return SqlType(SqlBaseType.ARRAY, element=sql_type(kind.elementType))
    if isinstance(kind, MapType):
        return SqlType(
            SqlBaseType.MAP, key=sql_type(kind.keyType), element=sql_type(kind.valueType)
        )
    if isinstance(kind, StructType):
        return struct(*((field.name, sql_type(field.dataType)) for field in kind.fields))
    name = kind.simpleString().partition("(")[0]
    if name == "time":
        return SqlType(SqlBaseType.TIME)
    return SqlType(_NAMES.get(name, SqlBaseType.STRING))
