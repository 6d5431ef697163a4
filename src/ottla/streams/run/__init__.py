"""Topologies on Spark: the only part of Streams that knows of it."""
