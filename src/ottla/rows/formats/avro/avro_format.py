"""The AVRO format."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from ottla.client.schema_registry import RegisteredSchema
from ottla.rows.formats.avro.payload_reader import PayloadReader
from ottla.rows.formats.avro.payload_writer import PayloadWriter
from ottla.rows.formats.avro.types import avro_schema
from ottla.rows.formats.registry_format import RegistryFormat
from ottla.rows.schema_properties import FULL_NAME
from ottla.schemas import framing


class AvroFormat(RegistryFormat):
    kind = "AVRO"

    _writer: PayloadWriter | None = None

    def plan_of(self, schema: RegisteredSchema) -> PayloadReader:
        root = self.registry.parsed(schema).body.root
        return PayloadReader(root, self.fields, wrapped=self.wrapped)

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if self._writer is None:
            self._writer = self.written_by(self.schema_text(), self._new_writer)
        return self._writer.write(columns, count)

    def schema_text(self) -> str:
        name = self.format.properties.get(FULL_NAME, "")
        return json.dumps(avro_schema(self.fields, wrapped=self.wrapped, name=name))

    def _new_writer(self, schema: RegisteredSchema) -> PayloadWriter:
        root = self.registry.parsed(schema).body.root
        prefix = framing.with_id(schema.id, b"")
        return PayloadWriter(root, self.fields, wrapped=self.wrapped, prefix=prefix)
