"""File formats: Parquet, JSON lines, CSV."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from ottla.connect.connectors.storage.tables import table_of
from ottla.connect.converters.json import JsonConverter
from ottla.connect.data import Schema
from ottla.connect.errors import DataException

Encode = Callable[[str, Schema | None, Sequence[Any]], Any]
GZIP_LEVEL: Final = 6


def extension_of(settings: Mapping[str, Any]) -> str:
    name: str = settings["format.class"]
    if name == "parquet":
        codec = settings["parquet.codec"]
        return ".parquet" if codec == "none" else f".{codec}.parquet"
    return f".{name}.gz" if settings["compression.type"] == "gzip" else f".{name}"


def format_encoder(settings: Mapping[str, Any]) -> Encode:
    """A function from topic, schema and values to the bytes of a file."""
    name: str = settings["format.class"]
    if name == "parquet":
        return _parquet(settings["parquet.codec"])
    encode = _json(settings["json.decimal.format"]) if name == "json" else _csv
    if settings["compression.type"] == "none":
        return encode

    def compressed(topic: str, schema: Schema | None, values: Sequence[Any]) -> Any:
        # No time in the header, so that the same records give the same bytes.
        return gzip.compress(encode(topic, schema, values), GZIP_LEVEL, mtime=0)

    return compressed


def _parquet(codec: str) -> Encode:
    def encode(topic: str, schema: Schema | None, values: Sequence[Any]) -> Any:
        sink = pa.BufferOutputStream()
        pyarrow.parquet.write_table(
            table_of(schema, values), sink, compression=None if codec == "none" else codec
        )
        return sink.getvalue()

    return encode


def _json(decimals: str) -> Encode:
    converter = JsonConverter()
    converter.configure(
        {"schemas.enable": "false", "converter.type": "value", "decimal.format": decimals}
    )

    def encode(topic: str, schema: Schema | None, values: Sequence[Any]) -> Any:
        lines = [converter.from_connect(topic, schema, value) or b"null" for value in values]
        return b"\n".join([*lines, b""])

    return encode


def _csv(topic: str, schema: Schema | None, values: Sequence[Any]) -> Any:
    table = table_of(schema, values)
    for field in table.schema:
        if pa.types.is_nested(field.type):
            raise DataException(
                f"the field {field.name} is nested, which CSV cannot represent (transforms.Flatten)"
            )
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(table, sink)
    return sink.getvalue().to_pybytes()
