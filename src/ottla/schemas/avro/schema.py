"""Avro schemas as objects: one node for each type, named types shared where they are named.

The rules are those of Avro 1.12's strict parser in Java: names, duplicates, unions, and defaults
that must fit their type. Attributes that the parser does not know stay as properties of their node.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ottla.schemas import json_text
from ottla.schemas.avro.defaults import fits
from ottla.schemas.avro.node import (
    FIELD_WORDS,
    NAMED,
    PRIMITIVES,
    TYPE_WORDS,
    AvroField,
    AvroNode,
    full_name,
)
from ottla.schemas.invalid_schema import InvalidSchema
from ottla.schemas.limits import NODES_MAX, TYPE_DEPTH_MAX, check_limits

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_ORDERS = ("ascending", "descending", "ignore")
_INT_MAX = 2**31 - 1


class AvroSchema:
    """A schema, and the names that it and its references define.

    With `strict` off, names and defaults are not checked, for schemas that are stored already:
    older registries accepted what Avro's parser refuses today.
    """

    def __init__(self, text: str, references: Mapping[str, str], *, strict: bool = True) -> None:
        check_limits(text, references)
        parser = _AvroParser(strict)
        self.references = [parser.parse(other) for other in references.values()]
        self.referenced = dict(parser.names)
        self.root = parser.parse(text)


class _AvroParser:
    def __init__(self, strict: bool) -> None:
        self.strict = strict
        self.names: dict[str, AvroNode] = {}
        self.nodes = 0
        self.depth = 0

    def parse(self, text: str) -> AvroNode:
        return self.node(json_text.read_json(text), "")

    def node(self, value: Any, space: str) -> AvroNode:
        """The type that a JSON value denotes within a namespace."""
        self.nodes += 1
        self.depth += 1
        if self.nodes > NODES_MAX:
            raise InvalidSchema(f"the schema has more than {NODES_MAX} types and fields")
        if self.depth > TYPE_DEPTH_MAX:
            raise InvalidSchema(f"types are nested more than {TYPE_DEPTH_MAX} deep")
        try:
            if isinstance(value, str):
                return self.named(value, space)
            if isinstance(value, list):
                return self.union(value, space)
            if isinstance(value, dict):
                return self.object(value, space)
        finally:
            self.depth -= 1
        raise InvalidSchema(
            f"No schema: {json_text.write_json(value)} is neither a name nor a type"
        )

    def named(self, name: str, space: str) -> AvroNode:
        if name in PRIMITIVES:
            return AvroNode(name)
        found = self.names.get(full_name(name, space)) or self.names.get(name)
        if found is None:
            raise InvalidSchema(
                f'Undefined name: "{name}". Define it before its first use, '
                "or give its schema as a reference"
            )
        return found

    def union(self, branches: list[Any], space: str) -> AvroNode:
        node = AvroNode("union")
        seen: set[str] = set()
        for branch in branches:
            child = self.node(branch, space)
            if child.kind == "union":
                raise InvalidSchema(f"Nested union: {json_text.write_json(branches)}")
            if child.key in seen:
                raise InvalidSchema(f"Duplicate in union: {child.key}")
            seen.add(child.key)
            node.branches.append(child)
            node.branch_by_name.setdefault(child.simple_name, child)
        return node

    def object(self, value: dict[str, Any], space: str) -> AvroNode:
        kind = value.get("type")
        if not isinstance(kind, str):
            raise InvalidSchema(f"No type: {json_text.write_json(value)}")
        if kind in PRIMITIVES:
            node = AvroNode(kind)
        elif kind in NAMED:
            node = self.define(kind, value, space)
        elif kind == "array":
            node = AvroNode(kind, items=self.node(_required(value, "items", kind), space))
        elif kind == "map":
            node = AvroNode(kind, items=self.node(_required(value, "values", kind), space))
        else:
            return self.named(kind, space)
        words = TYPE_WORDS | {"default"} if kind == "enum" else TYPE_WORDS
        node.properties = {key: other for key, other in value.items() if key not in words}
        return node

    def define(self, kind: str, value: dict[str, Any], space: str) -> AvroNode:
        name = _text(value, "name")
        if name is None:
            raise InvalidSchema(f"No name in schema: {json_text.write_json(value)}")
        namespace = _text(value, "namespace")
        whole = full_name(name, space if namespace is None else namespace)
        own_space, _, simple = whole.rpartition(".")
        self.check_names(simple, *(own_space.split(".") if own_space else ()))
        if simple in PRIMITIVES and not own_space:
            raise InvalidSchema(f"Schemas may not be named after primitives: {simple}")
        if whole in self.names:
            raise InvalidSchema(f"Can't redefine: {whole}")
        node = AvroNode(kind, name=whole, doc=_text(value, "doc"))
        self.names[whole] = node
        node.aliases = [full_name(alias, own_space) for alias in _texts(value, "aliases")]
        if kind == "enum":
            _read_enum(node, value)
            self.check_names(*node.symbols)
        elif kind == "fixed":
            _read_fixed(node, value)
        else:
            self.read_fields(node, value)
        return node

    def check_names(self, *names: str) -> None:
        for name in names if self.strict else ():
            if not _NAME.match(name):
                raise InvalidSchema(
                    f'Illegal name: "{name}". A name has ASCII letters, digits and _, no digit in'
                    " front"
                )

    def read_fields(self, node: AvroNode, value: dict[str, Any]) -> None:
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise InvalidSchema(f"Record {node.name} has no fields")
        seen: set[str] = set()
        late: list[AvroField] = []
        for described in fields:
            field = self.field(node, described)
            if field.name in seen:
                raise InvalidSchema(f"Duplicate field {field.name} in record {node.name}")
            seen.add(field.name)
            node.fields.append(field)
            if field.has_default:
                late.append(field)
        # A default may be of the type that is being defined, whose fields are known now.
        for field in late:
            if self.strict and not fits(field.type, field.default):
                raise InvalidSchema(
                    f"Invalid default for field {field.name} of {node.name}: "
                    f"{json_text.write_json(field.default)} is not a {field.type.key}"
                )

    def field(self, record: AvroNode, value: Any) -> AvroField:
        if not isinstance(value, dict):
            raise InvalidSchema(
                f"{record.name}: a field is an object, not {json_text.write_json(value)}"
            )
        name = _text(value, "name")
        if name is None:
            raise InvalidSchema(f"{record.name}: no name in field {json_text.write_json(value)}")
        self.check_names(name)
        if value.get("type") is None:
            raise InvalidSchema(f"Field {name} of {record.name} has no type")
        order = _text(value, "order") or "ascending"
        if order.lower() not in _ORDERS:
            raise InvalidSchema(f"Field {name} of {record.name}: no order {order}")
        try:
            found = self.node(value["type"], record.space)
        except InvalidSchema as error:
            if error.args[0].startswith('"'):
                raise
            raise InvalidSchema(f'"{record.name}.{name}": {error}') from error
        return AvroField(
            name=name,
            type=found,
            doc=_text(value, "doc"),
            has_default="default" in value,
            default=value.get("default"),
            order=order.lower(),
            aliases=_texts(value, "aliases"),
            properties={key: other for key, other in value.items() if key not in FIELD_WORDS},
        )


def _read_enum(node: AvroNode, value: dict[str, Any]) -> None:
    symbols = value.get("symbols")
    if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
        raise InvalidSchema(f"Enum {node.name} has no symbols")
    if len(set(symbols)) != len(symbols):
        twice = next(symbol for symbol in symbols if symbols.count(symbol) > 1)
        raise InvalidSchema(f"Duplicate enum symbol: {twice} in {node.name}")
    node.symbols = symbols
    default = _text(value, "default")
    if default is not None and default not in symbols:
        raise InvalidSchema(f"The default {default} is not a symbol of enum {node.name}")
    node.default = default


def _read_fixed(node: AvroNode, value: dict[str, Any]) -> None:
    size = value.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _INT_MAX:
        raise InvalidSchema(f"Invalid or no size: {node.name}")
    node.size = size


def _required(value: dict[str, Any], key: str, kind: str) -> Any:
    if value.get(key) is None:
        raise InvalidSchema(f"{kind.capitalize()} has no {key} type: {json_text.write_json(value)}")
    return value[key]


def _text(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _texts(value: dict[str, Any], key: str) -> list[str]:
    found = value.get(key)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise InvalidSchema(f"{key} is not a list of names: {json_text.write_json(found)}")
    return found
