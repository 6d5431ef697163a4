"""Array items that take no bytes: nulls, and records without other fields.

An array's count is all that the bytes say of such items: nine bytes can claim 2^62 items. All other
items take at least one byte, so that a reader soon finds the end of the data. A value may have
EMPTY_ITEMS_MAX such items, and one more for each of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.schemas.avro.node import AvroNode

EMPTY_ITEMS_MAX: Final = 1_000
_WIDTHS: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def takes_no_bytes(node: AvroNode) -> bool:
    return empty_values(node) > 0


def empty_values(node: AvroNode, known: dict[int, int] | None = None) -> int:
    """How many values a value contains, itself included, if it takes no bytes; else 0.

    A record can contain itself only behind a union, an array or a map, which take a byte. It can
    contain another record twice, and that one a third: `known` keeps this from doubling each time.
    """
    if node.kind not in ("record", "error"):
        return int(node.kind == "null" or (node.kind == "fixed" and node.size == 0))
    known = {} if known is None else known
    found = known.get(id(node))
    if found is None:
        parts = [empty_values(field.type, known) for field in node.fields]
        found = known[id(node)] = 1 + sum(parts) if all(parts) else 0
    return found


class EmptyItems:
    """Counts the empty items of a value, for decoders that would create them all. `check` raises
    ValueError, and costs nothing for schemas without an array of them."""

    def __init__(self, root: AvroNode) -> None:
        """ValueError for a schema by which zero bytes are too many values."""
        self._root = root
        self._values: dict[int, int] = {}
        self._possible = False
        for node in _all_nodes(root):
            if empty_values(node, self._values) > EMPTY_ITEMS_MAX:
                raise ValueError(
                    f"{node.name} holds more than {EMPTY_ITEMS_MAX} values that take no bytes"
                )
            if node.kind == "array" and empty_values(node.element, self._values):
                self._possible = True

    def check(self, data: bytes, position: int) -> None:
        if self._possible:
            left = EMPTY_ITEMS_MAX + len(data) - position
            try:
                _Walk(data, left, self._values).end_of(self._root, position)
            except IndexError:
                raise ValueError("the bytes end too early") from None


class _Walk:
    def __init__(self, data: bytes, left: int, values: dict[int, int]) -> None:
        self._data = data
        self._left = left
        self._values = values

    def end_of(self, node: AvroNode, position: int) -> int:
        """The end of the value that begins here."""
        kind = node.kind
        if kind in ("record", "error"):
            for field in node.fields:
                position = self.end_of(field.type, position)
            return position
        if kind in ("array", "map"):
            return self._end_of_items(node, position)
        if kind == "fixed" or kind in _WIDTHS:
            return self._checked(position + (node.size if kind == "fixed" else _WIDTHS[kind]))
        number, position = self._long(position)
        if kind in ("bytes", "string"):
            return self._checked(position + max(0, number))
        if kind == "union":
            if not 0 <= number < len(node.branches):
                raise ValueError(f"the union has no branch number {number}")
            return self.end_of(node.branches[number], position)
        return position  # int, long, enum

    def _end_of_items(self, node: AvroNode, position: int) -> int:
        empty = empty_values(node.element, self._values) if node.kind == "array" else 0
        while True:
            count, position = self._long(position)
            if not count:
                return position
            if count < 0:
                count = -count
                _, position = self._long(position)
            if empty:
                self._left -= count * empty
                if self._left < 0:
                    raise ValueError(f"an array of {count} items that take no bytes")
                continue
            for _ in range(count):
                if node.kind == "map":
                    size, position = self._long(position)
                    position = self._checked(position + max(0, size))
                position = self.end_of(node.element, position)

    def _checked(self, position: int) -> int:
        if position > len(self._data):
            raise IndexError
        return position

    def _long(self, position: int) -> tuple[int, int]:
        number = shift = 0
        while True:
            byte = self._data[position]
            position += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1), position
            shift += 7


def _all_nodes(root: AvroNode) -> Iterator[AvroNode]:
    """Each once."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if id(node) not in seen:
            seen.add(id(node))
            yield node
            waiting += [field.type for field in node.fields] + node.branches
            if node.items is not None:
                waiting.append(node.items)
