"""Rows: column types, layouts, formats (bytes <-> typed columns), and Java's conventions.

    types.py            ksqlDB's SQL types
    schema.py           Layout: the columns of a stream or table, and their formats in a topic
    formats/codec.py    the interface that each format implements, for keys or for values

`formats/` converts whole Arrow arrays (Spark's workers) and single rows (INSERT, pull queries) with
the same rules. `java/` repeats what Java does in its own way (murmur2, date patterns, texts), so
that results equal Kafka's to the digit.

SQL, the Spark source and sink, and the engine share this room. It must not import pyspark, the
engine, or a broker's rooms; of `client` it uses the schema registry's client.
"""
