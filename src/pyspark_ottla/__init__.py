"""Spark imports every top-level module named `pyspark_*` and registers its DefaultSource."""

from ottla.spark.source import OttlaDataSource as DefaultSource

__all__ = ["DefaultSource"]
