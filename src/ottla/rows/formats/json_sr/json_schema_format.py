"""The JSON_SR format: JSON with a schema id in front."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
from ottla.rows.formats.arrow import has_map
from ottla.rows.formats.avro.arrays import cut
from ottla.rows.formats.codec import Problems
from ottla.rows.formats.json import JsonFormat
from ottla.rows.formats.json_sr.types import json_schema
from ottla.rows.formats.registry_format import PayloadPlan, RegistryFormat
from ottla.rows.schema import Column, FormatInfo
from ottla.rows.schema_properties import SCHEMA_ID
from ottla.rows.types import SqlBaseType, SqlField, SqlType, array, struct
from ottla.schemas import framing
from ottla.schemas.framing import RecordSchemaId


class JsonSchemaFormat(RegistryFormat):
    """JSON is self-describing, so reading does not fetch the schema."""

    kind = "JSON"

    def __init__(
        self,
        format_: FormatInfo,
        columns: Sequence[Column],
        registry: SchemaRegistry | None,
        *,
        wrapped: bool,
    ) -> None:
        super().__init__(format_, columns, registry, wrapped=wrapped)
        self._json = JsonFormat(columns, wrapped=wrapped, entries=True)
        # In the schemas registered here, maps are arrays of entries; in others, objects.
        self._in_entries = SCHEMA_ID not in format_.properties
        written = columns
        if self._in_entries:
            written = [
                Column(column.name, as_entries(column.type), column.role) for column in columns
            ]
        self._writer = JsonFormat(written, wrapped=wrapped)
        self._prefix = b""

    def _plan(self, name: RecordSchemaId) -> PayloadPlan:
        return self

    def read(
        self, data: bytes | pa.Array, places: bytes = b"", count: int = 0
    ) -> tuple[list[pa.Array], Problems]:
        """Reads a batch, and, as its own plan, payloads."""
        if isinstance(data, bytes):
            return self._json.read(cut(data, places, None))
        return super().read(data)

    def plan_of(self, schema: RegisteredSchema) -> PayloadPlan:
        return self

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if not self._prefix:
            self._prefix = framing.with_id(self.written_schema(self.schema_text()).id, b"")
        if self._in_entries:
            columns = [
                entries_of(column, field.type)
                for column, field in zip(columns, self.fields, strict=True)
            ]
        texts = self._writer.write(columns, count)
        return pc.binary_join_element_wise(pa.scalar(self._prefix), texts, b"")

    def schema_text(self) -> str:
        return json.dumps(json_schema(self.fields, wrapped=self.wrapped))


def as_entries(type_: SqlType) -> SqlType:
    """The type with each MAP as an ARRAY of its entries."""
    if not has_map(type_):
        return type_
    if type_.kind is SqlBaseType.STRUCT:
        fields = tuple(SqlField(field.name, as_entries(field.type)) for field in type_.fields)
        return SqlType(SqlBaseType.STRUCT, fields=fields)
    assert type_.element is not None
    element = as_entries(type_.element)
    if type_.kind is SqlBaseType.ARRAY:
        return array(element)
    assert type_.key is not None
    return array(struct(("key", type_.key), ("value", element)))


def entries_of(column: pa.Array, type_: SqlType) -> pa.Array:
    """The column with this type, without copying."""
    if not has_map(type_):
        return column
    if type_.kind is SqlBaseType.STRUCT:
        parts = [
            entries_of(part, field.type)
            for part, field in zip(column.flatten(), type_.fields, strict=True)
        ]
        names = [field.name for field in type_.fields]
        return pa.StructArray.from_arrays(parts, names, mask=column.is_null())
    assert type_.element is not None
    if type_.kind is SqlBaseType.ARRAY:
        items = entries_of(column.values, type_.element)
    else:
        values = [column.keys, entries_of(column.items, type_.element)]
        items = pa.StructArray.from_arrays(values, ["key", "value"])
    return pa.Array.from_buffers(
        pa.list_(pa.field("element", items.type)),
        len(column),
        column.buffers()[:2],
        offset=column.offset,
        children=[items],
    )
