"""Rows out of records, and records out of rows: bytes <-> typed Arrow columns.

    Decoder(layout).decode(keys, values, timestamps_ms, partitions, offsets, headers)
    Encoder(layout).encode(batch)

Formats: NONE, KAFKA, DELIMITED, JSON; with a schema registry (registered.py) AVRO, JSON_SR and
PROTOBUF; and PROTOBUF_NOSR. Each is a `Half`, of keys or of values (half.py). No Spark in here: the
same code works in Spark's Python workers and in the server's process.
"""

from __future__ import annotations

from ottla.rows.formats.arrow import arrow_schema, arrow_type
from ottla.rows.formats.decoder import BadRecord, Decoder
from ottla.rows.formats.encoder import Encoder
from ottla.rows.formats.half import half_of

__all__ = ["BadRecord", "Decoder", "Encoder", "arrow_schema", "arrow_type", "half_of"]
