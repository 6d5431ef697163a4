"""Our own Kafka client: connections, metadata, retries, fetch, produce, transactions.

librdkafka is the client of Producer and Consumer. This one is for what it does not offer: requests
that it lacks, ranges of offsets for Spark, batches that are encoded already, transactions that
another process commits. `connection.py` is one broker, `cluster_client.py` a cluster, `retries.py`
the one table of errors that are tried again.
"""
