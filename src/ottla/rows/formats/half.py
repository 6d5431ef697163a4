"""Half a record: how its key, or its value, lies in bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ottla.rows.errors import SqlError
from ottla.rows.schema import FORMATS, Column, Format
from ottla.rows.types import Kind

if TYPE_CHECKING:
    from ottla.client.schema_registry import SchemaRegistry

Problems = dict[int, str]
"""What is wrong with a row, by its number."""


class Half(Protocol):
    """One format, for these columns. What is null never reaches it but as a column's value."""

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        """Columns of so many rows; a row with a problem has any values."""

    def read_row(self, data: bytes) -> list[Any]:
        """Raises ValueError."""

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array: ...

    def write_row(self, values: Sequence[Any]) -> bytes | None: ...


def half_of(
    format_: Format,
    columns: Sequence[Column],
    *,
    of_key: bool,
    registry: SchemaRegistry | None = None,
) -> Half:
    """Raises SqlError where the format can't have these columns."""
    from ottla.rows.formats.delimited import Delimited
    from ottla.rows.formats.json import Json
    from ottla.rows.formats.kafka import Kafka

    name = format_.name.upper()
    # ksqlDB writes a key of one column always without an object around it.
    wrapped = len(columns) != 1 if of_key else format_.wrapped
    if name in ("AVRO", "JSON_SR", "PROTOBUF"):
        return _registered(format_, columns, registry, wrapped=wrapped)
    if name == "JSON":
        return Json(columns, wrapped=wrapped)
    if name == "PROTOBUF_NOSR":
        from ottla.rows.formats.protobuf.half import ProtobufNoSr

        return ProtobufNoSr(format_, columns)
    if name == "KAFKA":
        return Kafka(columns)
    if name == "DELIMITED":
        return Delimited(columns, delimiter_of(format_.properties))
    if name == "NONE":
        return Nothing(columns)
    raise SqlError(f"Unknown format: {name}", remedy=f"Use one of {', '.join(FORMATS)}.")


def _registered(
    format_: Format, columns: Sequence[Column], registry: SchemaRegistry | None, *, wrapped: bool
) -> Half:
    """Imported where they are used: most topics have no schema, and need no parser of one."""
    if format_.name == "AVRO":
        from ottla.rows.formats.avro.half import Avro

        return Avro(format_, columns, registry, wrapped=wrapped)
    if format_.name == "JSON_SR":
        from ottla.rows.formats.json_sr.half import JsonSr

        return JsonSr(format_, columns, registry, wrapped=wrapped)
    from ottla.rows.formats.protobuf.half import Protobuf

    return Protobuf(format_, columns, registry, wrapped=True)


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


def unsupported(format_name: str, kind: Kind) -> SqlError:
    return SqlError(f"The '{format_name}' format does not support type '{kind.value}'")


class Nothing:
    """NONE: no bytes, no columns."""

    def __init__(self, columns: Sequence[Column]) -> None:
        if columns:
            names = ", ".join(each.name for each in columns)
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
