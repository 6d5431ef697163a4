"""The storage sink: Parquet, JSON or CSV files on any file system or object store of pyarrow.fs.

The settings are those of Confluent's S3 sink.
"""
