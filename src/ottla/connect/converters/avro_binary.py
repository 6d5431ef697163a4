"""Avro's bytes <-> plain Python values: the only module of Connect that calls fastavro.

fastavro gets a rewritten schema with the same binary encoding:

- without logical types, because Connect's differ from fastavro's; - without namespaces: types have
numbers for names; - with each branch of a union of several types wrapped in a record of one field,
which adds no bytes.
  So a value is read with its branch, `("b2", {"v": 1})`; fastavro returns a bare 1 for int and
  long.
"""

from __future__ import annotations

import io
from typing import Any

import fastavro
from fastavro import _read_py

from ottla.connect.converters.avro_settings import ANYTHING
from ottla.schemas.avro.bytes_root import is_bytes_root
from ottla.schemas.avro.codec import RECURSIVE_BYTES_MAX
from ottla.schemas.avro.empty_items import EmptyItems
from ottla.schemas.avro.node import AvroNode

PRIMITIVES = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string"))


class AvroBinary:
    """For one schema."""

    def __init__(self, root: AvroNode) -> None:
        self._names: dict[int, str] = {}
        self._branches: dict[int, list[str]] = {}
        self._count = 0
        self._schema = fastavro.parse_schema(self._of(root))
        self._raw = is_bytes_root(root)
        self._recursive = root.name == ANYTHING  # Connect has no other recursive types
        self._empty_items = EmptyItems(root)

    def write(self, value: Any) -> bytes:
        if self._raw:
            return bytes(value)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._schema, value)
        return out.getvalue()

    def read(self, data: bytes, position: int) -> Any:
        if self._raw:
            return data[position:]
        self._empty_items.check(data, position)
        source = io.BytesIO(data)
        source.seek(position)
        deep = self._recursive and len(data) > RECURSIVE_BYTES_MAX
        read = _read_py.schemaless_reader if deep else fastavro.schemaless_reader
        return read(
            source, self._schema, None, return_record_name=True, return_record_name_override=True
        )

    def branches(self, union: AvroNode) -> list[str] | None:
        """The name of each branch; None if there is at most one type besides null."""
        return self._branches.get(id(union))

    def name(self, node: AvroNode) -> str:
        return self._names[id(node)]

    def _of(self, node: AvroNode) -> Any:
        if node.kind in PRIMITIVES:
            return node.kind
        if node.kind == "array":
            return {"type": "array", "items": self._of(node.element)}
        if node.kind == "map":
            return {"type": "map", "values": self._of(node.element)}
        if node.kind == "union":
            return self._union(node)
        known = self._names.get(id(node))
        return known if known is not None else self._named(node)

    def _named(self, node: AvroNode) -> Any:
        name = self._names[id(node)] = self._next("n")
        if node.kind == "enum":
            return {"type": "enum", "name": name, "symbols": node.symbols}
        if node.kind == "fixed":
            return {"type": "fixed", "name": name, "size": node.size}
        fields = [{"name": field.name, "type": self._of(field.type)} for field in node.fields]
        return {"type": "record", "name": name, "fields": fields}

    def _union(self, node: AvroNode) -> Any:
        several = sum(branch.kind != "null" for branch in node.branches) > 1
        if not several:
            return [self._of(branch) for branch in node.branches]
        names: list[str] = []
        written: list[Any] = []
        for branch in node.branches:
            names.append(self._next("b"))
            if branch.kind == "null":
                written.append("null")
                continue
            fields = [{"name": "v", "type": self._of(branch)}]
            written.append({"type": "record", "name": names[-1], "fields": fields})
        self._branches[id(node)] = names
        return written

    def _next(self, begin: str) -> str:
        self._count += 1
        return f"{begin}{self._count}"
