"""Checks defaults against their types, in Avro's JSON encoding of defaults."""

from __future__ import annotations

from typing import Any

from ottla.schemas.avro.node import AvroNode
from ottla.schemas.invalid_schema import InvalidSchema

_INT = range(-(2**31), 2**31)
_LONG = range(-(2**63), 2**63)
_COMPLEX = frozenset(("array", "map", "union", "record", "error"))


# Defaults of recursive types, and of unions of such types, can be deep and take many attempts.
DEFAULT_DEPTH_MAX = 50
DEFAULT_STEPS_MAX = 50_000


def fits(node: AvroNode, value: Any) -> bool:
    """True if the JSON value can be a default of this type. A union's default may fit any
    branch."""
    return _Fit().fits(node, value)


class _Fit:
    def __init__(self) -> None:
        self.steps = 0
        self.depth = 0

    def fits(self, node: AvroNode, value: Any) -> bool:
        self.steps += 1
        if self.steps > DEFAULT_STEPS_MAX or self.depth > DEFAULT_DEPTH_MAX:
            raise InvalidSchema("a default is too large or too deep to be checked")
        self.depth += 1
        found = self.complex(node, value) if node.kind in _COMPLEX else _fits_simple(node, value)
        self.depth -= 1
        return found

    def complex(self, node: AvroNode, value: Any) -> bool:
        if node.kind == "array":
            return isinstance(value, list) and all(self.fits(node.element, item) for item in value)
        if node.kind == "union":
            return any(self.fits(branch, value) for branch in node.branches)
        if not isinstance(value, dict):
            return False
        if node.kind == "map":
            return all(self.fits(node.element, item) for item in value.values())
        # A record: every field is in the value, or has a default itself.
        return all(
            self.fits(field.type, value[field.name]) if field.name in value else field.has_default
            for field in node.fields
        )


def _fits_simple(node: AvroNode, value: Any) -> bool:
    kind = node.kind
    if kind in ("string", "bytes", "enum", "fixed"):
        return isinstance(value, str)
    if kind in ("int", "long"):
        whole = isinstance(value, int) and not isinstance(value, bool)
        return whole and value in (_INT if kind == "int" else _LONG)
    if kind in ("float", "double"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "boolean":
        return isinstance(value, bool)
    return value is None
