"""The connectors in the box: files, databases, file systems and object stores, HTTP, MirrorMaker.

Each has the settings, and usually the class name, of the connector that users know: Apache Kafka's
(file, mirror) or Confluent's (JDBC, S3, HTTP).

    file_source.py file_sink.py    the smallest ones, and a good start for reading
    jdbc/source.py jdbc/sink.py    PostgreSQL and SQLite
    mirror/source.py               MirrorMaker 2; with checkpoints.py and heartbeats.py

A connector is written against `connect.api`, as one from another distribution would be: it imports
neither run/ nor herder/, and knows nothing of Spark. docs/connectors.md lists the settings, which
`tools/connectors_doc.py` generates from the ConfigDefs.
"""
