"""JSON_SR as half a record: the bytes of JSON behind an id."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.schema_registry import RegisteredSchema, SchemaRegistry
from ottla.rows.formats.arrow import has_map
from ottla.rows.formats.avro.arrays import cut
from ottla.rows.formats.half import Problems
from ottla.rows.formats.json import Json
from ottla.rows.formats.json_sr.types import json_schema
from ottla.rows.formats.registered import Plan, Registered
from ottla.rows.schema import Column, Format
from ottla.rows.schema_properties import SCHEMA_ID
from ottla.rows.types import Field, Kind, SqlType, array, struct
from ottla.schemas import framing
from ottla.schemas.framing import SchemaName


class JsonSr(Registered):
    """The payload says its own types: its schema is not asked for."""

    kind = "JSON"

    def __init__(
        self,
        format_: Format,
        columns: Sequence[Column],
        registry: SchemaRegistry | None,
        *,
        wrapped: bool,
    ) -> None:
        super().__init__(format_, columns, registry, wrapped=wrapped)
        self._json = Json(columns, wrapped=wrapped, entries=True)
        # Of the schemas that we register, maps are arrays of entries; of others, objects.
        self._in_entries = SCHEMA_ID not in format_.properties
        written = columns
        if self._in_entries:
            written = [Column(each.name, as_entries(each.type), each.role) for each in columns]
        self._writer = Json(written, wrapped=wrapped)
        self._prefix = b""

    def _plan(self, name: SchemaName) -> Plan:
        return self

    def read(
        self, data: bytes | pa.Array, places: bytes = b"", count: int = 0
    ) -> tuple[list[pa.Array], Problems]:
        """Of a batch, and as its own plan, of payloads."""
        if isinstance(data, bytes):
            return self._json.read(cut(data, places, None))
        return super().read(data)

    def plan_of(self, schema: RegisteredSchema) -> Plan:
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
    if type_.kind is Kind.STRUCT:
        fields = tuple(Field(each.name, as_entries(each.type)) for each in type_.fields)
        return SqlType(Kind.STRUCT, fields=fields)
    assert type_.element is not None
    element = as_entries(type_.element)
    if type_.kind is Kind.ARRAY:
        return array(element)
    assert type_.key is not None
    return array(struct(("key", type_.key), ("value", element)))


def entries_of(column: pa.Array, type_: SqlType) -> pa.Array:
    """The same of a column; nothing is copied."""
    if not has_map(type_):
        return column
    if type_.kind is Kind.STRUCT:
        parts = [
            entries_of(part, field.type)
            for part, field in zip(column.flatten(), type_.fields, strict=True)
        ]
        names = [each.name for each in type_.fields]
        return pa.StructArray.from_arrays(parts, names, mask=column.is_null())
    assert type_.element is not None
    if type_.kind is Kind.ARRAY:
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
