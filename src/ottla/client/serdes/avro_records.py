"""Nested records of `Avro()`: each carries its schema and its branch of a union.

Where a union has several records, the codec takes and returns `(full name, dict)`; here that is a
`GenericRecord`, whose schema has the name. So a record stays in its branch when it is written
again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.client.serdes.generic_values import CarriedSchema, GenericRecord

if TYPE_CHECKING:
    from ottla.schemas.avro.node import AvroNode
    from ottla.schemas.schema_types import Reference

Convert = Callable[[Any], Any]


class RecordTree:
    """Conversions for one schema; None where values stay as they are."""

    def __init__(self, root: AvroNode, text: str, references: Sequence[Reference] = ()) -> None:
        # A record at the root that is a branch of a union carries the whole union, its topic's
        # schema.
        self._carried = {
            id(node): CarriedSchema("AVRO", text, references, node.name)
            for node in (root, *root.branches)
        }
        self._readers: dict[int, Convert] = {}
        self._writers: dict[int, Convert] = {}
        self._with_choice = _with_choice(root)
        self.has_choice = bool(self._with_choice)
        self.from_plain = self._reader(root)
        self.to_plain = self._writer(root)

    # Reading

    def _reader(self, node: AvroNode) -> Convert | None:
        if node.kind in ("record", "error"):
            return self._readers.get(id(node)) or self._record_reader(node)
        if node.kind in ("array", "map"):
            return _of_items(node, self._reader(node.element))
        return self._union_reader(node) if node.kind == "union" else None

    def _record_reader(self, node: AvroNode) -> Convert:
        parts: list[tuple[str, Convert]] = []
        carried = self._carried.get(id(node)) or _alone(node)

        def read(plain: dict[str, Any]) -> GenericRecord:
            record = GenericRecord(plain, carried)  # a copy: defaults belong to the schema
            for name, convert in parts:
                value = plain[name]
                if value is not None:
                    record[name] = convert(value)
            return record

        self._readers[id(node)] = read  # a record may contain itself
        for field in node.fields:
            convert = self._reader(field.type)
            if convert is not None:
                parts.append((field.name, convert))
        return read

    def _union_reader(self, node: AvroNode) -> Convert | None:
        records = {
            record.name: self._reader(record) for record in node.branches if record.kind == "record"
        }
        by_type: dict[type, Convert] = {}
        for branch in node.branches:
            convert = self._reader(branch)
            if convert is not None:
                by_type.setdefault(list if branch.kind == "array" else dict, convert)
        if len(records) > 1:
            by_type[tuple] = lambda pair: _called(records[pair[0]], pair[1])
        if not by_type:
            return None

        def read(value: Any) -> Any:
            convert = by_type.get(type(value))
            return value if convert is None else convert(value)

        return read

    # Writing

    def _writer(self, node: AvroNode) -> Convert | None:
        if id(node) not in self._with_choice:
            return None
        if node.kind in ("record", "error"):
            return self._writers.get(id(node)) or self._record_writer(node)
        if node.kind in ("array", "map"):
            return _of_items(node, self._writer(node.element))
        return self._union_writer(node)

    def _record_writer(self, node: AvroNode) -> Convert:
        parts: list[tuple[str, Convert]] = []

        def write(value: Any) -> dict[str, Any]:
            plain = dict(value)
            for name, convert in parts:
                if plain.get(name) is not None:
                    plain[name] = convert(plain[name])
            return plain

        self._writers[id(node)] = write
        for field in node.fields:
            convert = self._writer(field.type)
            if convert is not None:
                parts.append((field.name, convert))
        return write

    def _union_writer(self, node: AvroNode) -> Convert:
        """A plain dict passes unchanged: the codec takes the first branch that fits."""
        records = {
            record.name: self._writer(record) for record in node.branches if record.kind == "record"
        }
        others = [branch for branch in node.branches if branch.kind in ("array", "map")]
        by_type = {list if other.kind == "array" else dict: self._writer(other) for other in others}

        def write(value: Any) -> Any:
            if isinstance(value, GenericRecord) and value.schema is not None:
                name = value.schema.record
                if name in records:
                    return name, _called(records[name], value)
            return _called(by_type.get(type(value)), value)

        return write


def _called(convert: Convert | None, value: Any) -> Any:
    return value if convert is None else convert(value)


def _of_items(node: AvroNode, convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    if node.kind == "array":
        return lambda items: [None if item is None else convert(item) for item in items]
    return lambda items: {
        key: None if item is None else convert(item) for key, item in items.items()
    }


def _alone(node: AvroNode) -> CarriedSchema:
    """A nested record's schema as a schema for itself."""
    from ottla.schemas.avro.text import canonical_text

    return CarriedSchema("AVRO", canonical_text(node), (), node.name)


def _with_choice(root: AvroNode) -> set[int]:
    """Nodes at or above a union with several records."""
    found: set[int] = set()
    below: dict[int, list[AvroNode]] = {}
    todo = [root]
    while todo:
        node = todo.pop()
        if id(node) in below:
            continue
        children = [field.type for field in node.fields] + node.branches
        if node.items is not None:
            children.append(node.items)
        below[id(node)] = children
        todo += children
        if sum(branch.kind == "record" for branch in node.branches) > 1:
            found.add(id(node))
    grown = True
    while grown:
        more = {
            at for at, children in below.items() if any(id(child) in found for child in children)
        }
        grown = not more <= found
        found |= more
    return found
