"""Avro's binary encoding of Python values, by fastavro.

A record is a dict, an enum a str; logical types are datetime, date, time, Decimal and UUID. In a
union of several records the first branch that fits a value wins; `(full name, dict)` names the
branch.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any, Final

from fastavro import _read_py, parse_schema, schemaless_reader, schemaless_writer

from ottla.schemas.avro.bytes_root import is_bytes_root, with_size, without_size
from ottla.schemas.avro.empty_items import EmptyItems
from ottla.schemas.avro.node import AvroNode
from ottla.schemas.avro.text import canonical_text
from ottla.schemas.schema_types import ParsedSchema

# fastavro's compiled reader recurses on the C stack without a limit: 8,000 levels end the process.
# A level takes at least a byte, so shorter data can't nest too deep.
RECURSIVE_BYTES_MAX: Final = 2_000


class AvroCodec:
    """Encodes by a schema, and decodes what that schema encoded.

    With `reader`, another schema, decoded values have the reader's shape, by Avro's schema
    resolution. With `record_names`, a record in a union of several is decoded as `(full name,
    dict)`.
    """

    def __init__(
        self,
        schema: ParsedSchema,
        reader: ParsedSchema | None = None,
        *,
        record_names: bool = False,
    ) -> None:
        root: AvroNode = schema.body.root
        self._schema = _prepared(schema)
        same = reader is None or reader.canonical == schema.canonical
        self._reader = None if reader is None or same else _prepared(reader)
        self._options: dict[str, Any] = {}
        if record_names:
            self._options = {"return_record_name": True, "return_record_name_override": True}
        self._recursive = _is_recursive(root)
        self._empty_items = EmptyItems(root)
        self._sizeless = is_bytes_root(root)
        self._plain_bytes = self._sizeless and "logicalType" not in root.properties

    def encode(self, value: Any) -> bytes:
        if self._plain_bytes:
            return bytes(value)
        out = BytesIO()
        schemaless_writer(out, self._schema, value)
        return without_size(out.getvalue()) if self._sizeless else out.getvalue()

    def decode(self, data: bytes, position: int = 0) -> Any:
        if self._plain_bytes:
            return bytes(data[position:])
        self._empty_items.check(data, position)
        if self._sizeless:
            data, position = with_size(bytes(data[position:])), 0
        source = BytesIO(data)
        source.seek(position)
        if self._recursive and len(data) - position > RECURSIVE_BYTES_MAX:
            # The same in Python, where excessive depth raises a RecursionError.
            return _read_py.schemaless_reader(source, self._schema, self._reader, **self._options)
        return schemaless_reader(source, self._schema, self._reader, **self._options)


def _prepared(schema: ParsedSchema) -> Any:
    """In fastavro's form, with the references' definitions inlined."""
    return parse_schema(json.loads(canonical_text(schema.body.root)))


def _is_recursive(root: AvroNode) -> bool:
    """True if a value of this schema can contain another one of the same type."""
    open_names: set[str] = set()
    done: set[int] = set()

    def meets_itself(node: AvroNode) -> bool:
        if node.name and node.name in open_names:
            return True
        if id(node) in done:
            return False
        open_names.add(node.name)
        below = [field.type for field in node.fields] + node.branches
        if node.items is not None:
            below.append(node.items)
        found = any(meets_itself(child) for child in below)
        open_names.discard(node.name)
        done.add(id(node))
        return found

    return meets_itself(root)
