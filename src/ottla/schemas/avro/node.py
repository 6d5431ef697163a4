"""The nodes of an Avro schema."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
NAMED = frozenset(("record", "error", "enum", "fixed"))
# Attributes of Avro's specification; all others are properties, which are kept.
TYPE_WORDS = frozenset(
    ("doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases")
)
FIELD_WORDS = frozenset(("default", "doc", "name", "order", "type", "aliases"))


@dataclass(eq=False, slots=True)
class AvroNode:
    """A type. A named type is one object wherever it is named, so schemas may be cyclic."""

    kind: str
    name: str = ""  # the full name
    doc: str | None = None
    aliases: list[str] = field(default_factory=list)  # full names
    fields: list[AvroField] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    default: str | None = None  # an enum's symbol for symbols that the reader lacks
    size: int = 0
    items: AvroNode | None = None  # of an array or a map
    branches: list[AvroNode] = field(default_factory=list)
    branch_by_name: dict[str, AvroNode] = field(default_factory=dict)  # by simple name
    properties: dict[str, Any] = field(default_factory=dict)

    @property
    def space(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def simple_name(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def key(self) -> str:
        """What must differ between the branches of a union."""
        return self.name or self.kind

    @property
    def element(self) -> AvroNode:
        assert self.items is not None, f"a {self.kind} has no elements"
        return self.items


@dataclass(eq=False, slots=True)
class AvroField:
    name: str
    type: AvroNode
    doc: str | None
    has_default: bool
    default: Any
    order: str
    aliases: list[str]
    properties: dict[str, Any]


def full_name(name: str, space: str) -> str:
    """A name with dots is a full name already."""
    return name if "." in name or not space else f"{space}.{name}"
