"""Spark queries that are kept running: what SQL, Streams and Connect share."""
