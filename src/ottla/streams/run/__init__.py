"""Runs topologies on Spark.

    application.py       a topology from start to close: states, handlers, metrics (KafkaStreams)
    settings.py          Kafka's configuration names -> ApplicationSettings
    read_only_store.py   interactive queries: stores, read from their changelogs
    job.py               a Python file with a topology, as `ottla streams` runs it

This is the only folder of Streams that needs Spark. What every product on Spark needs (topics,
starting positions, supervision) is in `ottla.queries`; this folder adds only what is Kafka Streams'
own, and no other room imports it but the command line.
"""

from ottla.extras import require

require("ottla.streams.run", "spark", ("pyspark", "pyarrow"))
