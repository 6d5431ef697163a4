"""Rows: column types, layouts of rows, formats (bytes to typed columns and back), Java's habits.

`types.py` has ksqlDB's types, `schema.py` the layout of a stream or table, `formats/codec.py` is
what each format implements. SQL, the Spark source and sink and the engine share this room; nothing
here runs on Spark.
"""
