"""Converts records to rows and back: bytes <-> typed Arrow columns.

    Decoder(layout).decode(keys, values, timestamps_ms, partitions, offsets, headers)
    Encoder(layout).encode(batch)

Formats: NONE, KAFKA, DELIMITED, JSON; with a schema registry (registry_format.py) AVRO, JSON_SR and
PROTOBUF; and PROTOBUF_NOSR. Each implements `Codec` (codec.py) for keys or values. The same code
runs in Spark's Python workers and in the server's process.
"""

from __future__ import annotations

from ottla.rows.formats.arrow import arrow_schema, arrow_type
from ottla.rows.formats.codec import codec_of
from ottla.rows.formats.decoder import BadRecord, Decoder
from ottla.rows.formats.encoder import Encoder

__all__ = ["BadRecord", "Decoder", "Encoder", "arrow_schema", "arrow_type", "codec_of"]
