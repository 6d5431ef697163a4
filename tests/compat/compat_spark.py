"""What the Spark tests share: jobs written once, for Spark's own connector and for ours.

Both formats take the same options and give the same columns; `Jobs` has the format's name.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compat_brokers import CACHE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE_S = 90
JARS = CACHE / "spark-kafka"
OFFICIAL, OURS = "kafka", "ottla"


def connector_session() -> SparkSession:
    """More cores than there are: each reader and writer of real-time mode keeps one for itself."""
    from ottla.spark import session

    return session.start(
        master="local[6]",
        settings={
            "spark.jars": connector_jars(),
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.streaming.realTimeMode.minBatchDuration": "1000",
            "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        },
    )


def connector_jars() -> str:
    """For `spark.jars`."""
    jars = sorted(str(entry) for entry in JARS.glob("*.jar"))
    assert jars, "no connector: run tools/setup_test_clients.sh --maven"
    return ",".join(jars)


@dataclass(frozen=True, slots=True)
class Jobs:
    spark: SparkSession
    bootstrap: str
    format: str
    place: Path
    """For checkpoints: one test, one folder."""

    def read(self, **options: Any) -> DataFrame:
        return self._load(self.spark.read, options)

    def stream(self, **options: Any) -> DataFrame:
        return self._load(self.spark.readStream, options)

    def _load(self, reader: Any, options: dict[str, Any]) -> DataFrame:
        servers = {"kafka.bootstrap.servers": self.bootstrap}
        frame: DataFrame = reader.format(self.format).options(**servers, **options).load()
        return frame

    def write(self, frame: DataFrame, **options: Any) -> None:
        writer = frame.write.format(self.format).option("kafka.bootstrap.servers", self.bootstrap)
        writer.options(**options).mode("append").save()

    def run(self, frame: DataFrame, topic: str, *, checkpoint: str = "checkpoint") -> Any:
        """All that is there, into a topic; the query, when it is over."""
        writer = frame.writeStream.format(self.format).option("topic", topic)
        writer = writer.option("kafka.bootstrap.servers", self.bootstrap)
        query = writer.option("checkpointLocation", str(self.place / checkpoint)).trigger(
            availableNow=True
        ).start()  # fmt: skip
        assert query.awaitTermination(PATIENCE_S), "the query does not end"
        return query


def values(frame: DataFrame) -> list[str]:
    """The values as text, sorted as numbers where they are such."""
    return sorted(row.value.decode() for row in frame.select("value").collect())


def numbers(span: Iterable[int]) -> list[dict[str, Any]]:
    """Records for compat_confluent.produce."""
    return [{"key": f"k{entry}".encode(), "value": f"v{entry:05}".encode()} for entry in span]


def expected(span: Iterable[int]) -> list[str]:
    return [f"v{entry:05}" for entry in span]
