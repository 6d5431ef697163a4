"""Kafka Streams' model in Python: topologies of processors, run as tasks on Spark.

No file here but those in run/ imports pyspark: a topology is built, tested and described without.
"""
