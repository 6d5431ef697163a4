"""connect_spark: starts Spark with the settings of a Connect worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.connect.worker_config import WorkerConfig
from ottla.queries.spark_provider import SparkProvider
from ottla.spark import session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def connect_spark(settings: WorkerConfig) -> SparkProvider:
    def start() -> SparkSession:
        return session.start(
            master=settings.get("ottla.connect.spark.master"),
            remote=settings.get("ottla.connect.spark.remote") or None,
            app_name=f"ottla-connect-{settings.get('group.id')}",
            heap=settings.get("ottla.connect.spark.heap"),
            settings=settings.spark,
            java_options=session.FIRST_COMPILER,
        )

    return SparkProvider(start)
