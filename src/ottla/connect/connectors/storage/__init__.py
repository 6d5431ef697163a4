"""Topics as files of a file system or an object store: Parquet, JSON or CSV, through pyarrow.fs.

The settings are those of Confluent's S3 sink.
"""
