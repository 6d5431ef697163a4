"""An Avro schema as text: as Avro's Java library writes it, and in Confluent's normal form."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla.schemas import json_text
from ottla.schemas.avro.node import PRIMITIVES, AvroField, AvroNode


def canonical_text(root: AvroNode, known: Collection[str] = ()) -> str:
    """The text that Confluent's registry stores. `known` are names that references define."""
    return json_text.write_json(_AvroTextWriter(known).node(root, ""))


def normal_text(root: AvroNode, known: Collection[str] = ()) -> str:
    """The canonical text with sorted properties and aliases."""
    return json_text.write_json(_AvroTextWriter(known, in_order=True).node(root, ""))


class _AvroTextWriter:
    def __init__(self, known: Collection[str], *, in_order: bool = False) -> None:
        self.known = set(known)
        self.in_order = in_order

    def properties(self, item: AvroNode | AvroField) -> dict[str, Any]:
        return _sorted(item.properties) if self.in_order else item.properties

    def aliases(self, names: list[str]) -> list[str]:
        return sorted(set(names)) if self.in_order else names

    def node(self, node: AvroNode, space: str) -> Any:
        if node.kind in PRIMITIVES:
            return {"type": node.kind, **self.properties(node)} if node.properties else node.kind
        if node.kind == "union":
            return [self.node(branch, space) for branch in node.branches]
        if node.kind in ("array", "map"):
            word = "items" if node.kind == "array" else "values"
            return {
                "type": node.kind,
                word: self.node(node.element, space),
                **self.properties(node),
            }
        if node.name in self.known:
            return _qualified(node.name, space)
        self.known.add(node.name)
        return self.definition(node, space)

    def definition(self, node: AvroNode, space: str) -> dict[str, Any]:
        value: dict[str, Any] = {"type": node.kind, "name": node.simple_name}
        if node.space != space:
            value["namespace"] = node.space
        if node.doc is not None:
            value["doc"] = node.doc
        if node.kind == "enum":
            value["symbols"] = node.symbols
            if node.default is not None:
                value["default"] = node.default
        elif node.kind == "fixed":
            value["size"] = node.size
        else:
            value["fields"] = [self.field(field, node.space) for field in node.fields]
        value.update(self.properties(node))
        if node.aliases:
            value["aliases"] = [
                _qualified(alias, node.space) for alias in self.aliases(node.aliases)
            ]
        return value

    def field(self, field: AvroField, space: str) -> dict[str, Any]:
        value: dict[str, Any] = {"name": field.name, "type": self.node(field.type, space)}
        if field.doc is not None:
            value["doc"] = field.doc
        if field.has_default:
            value["default"] = _in_order(field.default) if self.in_order else field.default
        if field.order != "ascending":
            value["order"] = field.order
        if field.aliases:
            value["aliases"] = self.aliases(field.aliases)
        value.update(self.properties(field))
        return value


def _sorted(properties: dict[str, Any]) -> dict[str, Any]:
    """Sorted keys, but the logical type and its attributes first."""
    logical = properties.get("logicalType")
    first = ("logicalType", "precision", "scale") if logical == "decimal" else ("logicalType",)
    keys = [key for key in first if key in properties]
    keys += sorted(key for key in properties if key not in first)
    return {key: _in_order(properties[key]) for key in keys}


def _in_order(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _in_order(value[key]) for key in sorted(value)}
    return [_in_order(item) for item in value] if isinstance(value, list) else value


def _qualified(name: str, space: str) -> str:
    own_space, _, simple = name.rpartition(".")
    return simple if own_space == space and simple not in PRIMITIVES else name
