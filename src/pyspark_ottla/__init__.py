"""Spark imports every top-level module named `pyspark_*` and registers its DefaultSource."""
