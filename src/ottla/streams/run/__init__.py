"""Topologies on Spark: the only part of Streams that knows of it."""

from ottla.extras import require

require("ottla.streams.run", "spark", ("pyspark", "pyarrow"))
