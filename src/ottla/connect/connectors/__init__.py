"""Connectors in the box: files, databases, file systems and object stores, HTTP, other clusters.

Each has the settings, and mostly the class name, of the connector that people know: those of Apache
Kafka (file, mirror) and of Confluent (JDBC, S3, HTTP).
"""
