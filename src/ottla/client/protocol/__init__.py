"""Ottla's own Kafka client: connections, metadata, retries, fetch, produce, transactions.

librdkafka is the client of Producer and Consumer. This one is for what librdkafka does not offer:
APIs that it lacks, fetches of offset ranges for Spark, batches that are encoded already, and
transactions that another process commits. `connection.py` is a connection to one broker,
`cluster_client.py` a cluster, `retries.py` the table of retriable errors.
"""
