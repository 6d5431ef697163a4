"""Codec: how a format converts the keys or the values of records to columns and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ottla.rows.errors import SqlError
from ottla.rows.schema import FORMATS, Column, FormatInfo
from ottla.rows.types import SqlBaseType

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry

Problems = dict[int, str]
"""Row number -> error message."""


class Codec(Protocol):
    """A format with fixed columns. Null keys and values never reach it; null columns do."""

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        """The columns of all rows; the values of a row with a problem are undefined."""

    def read_row(self, data: bytes) -> list[Any]:
        """Raises ValueError."""

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array: ...

    def write_row(self, values: Sequence[Any]) -> bytes | None: ...


def codec_of(
    format_: FormatInfo,
    columns: Sequence[Column],
    *,
    of_key: bool,
    registry: SchemaRegistry | None = None,
) -> Codec:
    """Raises SqlError if the format does not support these columns."""
    from ottla.rows.formats.delimited import DelimitedFormat
    from ottla.rows.formats.json import JsonFormat
    from ottla.rows.formats.kafka import KafkaFormat

    name = format_.name.upper()
    # ksqlDB always writes a key of one column unwrapped.
    wrapped = len(columns) != 1 if of_key else format_.wrapped
    if name in ("AVRO", "JSON_SR", "PROTOBUF"):
        return _registered(format_, columns, registry, wrapped=wrapped)
    if name == "JSON":
        return JsonFormat(columns, wrapped=wrapped)
    if name == "PROTOBUF_NOSR":
        from ottla.rows.formats.protobuf.protobuf_format import ProtobufNoSrFormat

        return ProtobufNoSrFormat(format_, columns)
    if name == "KAFKA":
        return KafkaFormat(columns)
    if name == "DELIMITED":
        return DelimitedFormat(columns, delimiter_of(format_.properties))
    if name == "NONE":
        return NoneFormat(columns)
    raise SqlError(f"Unknown format: {name}", remedy=f"Use one of {', '.join(FORMATS)}.")


def _registered(
    format_: FormatInfo,
    columns: Sequence[Column],
    registry: SchemaRegistry | None,
    *,
    wrapped: bool,
) -> Codec:
    """Imports these formats on first use, because most topics need no schema parser."""
    if format_.name == "AVRO":
        from ottla.rows.formats.avro.avro_format import AvroFormat

        return AvroFormat(format_, columns, registry, wrapped=wrapped)
    if format_.name == "JSON_SR":
        from ottla.rows.formats.json_sr.json_schema_format import JsonSchemaFormat

        return JsonSchemaFormat(format_, columns, registry, wrapped=wrapped)
    from ottla.rows.formats.protobuf.protobuf_format import ProtobufFormat

    return ProtobufFormat(format_, columns, registry, wrapped=True)


def delimiter_of(properties: Any) -> str:
    """KEY_DELIMITER or VALUE_DELIMITER: a character, or SPACE or TAB."""
    found = [str(value) for name, value in properties.items() if name.upper().endswith("DELIMITER")]
    if not found:
        return ","
    word = found[0]
    character = {"SPACE": " ", "TAB": "\t"}.get(word.upper(), word)
    if len(character) != 1:
        raise SqlError(
            f"Invalid delimiter value: '{word}'. Delimiter must be a single character"
            " or SPACE or TAB."
        )
    return character


def unsupported(format_name: str, kind: SqlBaseType) -> SqlError:
    return SqlError(f"The '{format_name}' format does not support type '{kind.value}'")


class NoneFormat:
    """NONE: no bytes, no columns."""

    def __init__(self, columns: Sequence[Column]) -> None:
        if columns:
            names = ", ".join(column.name for column in columns)
            raise SqlError(
                f"The 'NONE' format can only be used when no columns are defined. Got: [{names}]"
            )

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        return [], {}

    def read_row(self, data: bytes) -> list[Any]:
        return []

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        return pa.nulls(count, pa.binary())

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        return None
