"""Readers for fields without a column: they only find the next position.

mypyc compiles them together with readers.py.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from ottla.rows.formats.avro.readers import AvroDecodeError, AvroReader, long_at, size_at

DEPTH_MAX: Final = 200  # of recursive records


class Skip(AvroReader):
    """Skips a value."""

    def null(self) -> None:
        return

    def truncate(self, count: i64) -> None:
        return


class SkipFixedBytes(Skip):
    """A fixed number of bytes: null, boolean, float, double, fixed."""

    def __init__(self, size: int) -> None:
        self.size: i64 = size

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        return position + self.size


class SkipLong(Skip):
    """int, long, enum."""

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        _, position = long_at(data, position)
        return position


class SkipBytes(Skip):
    """string, bytes."""

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        size, position = size_at(data, position, limit)
        return position + size


class SkipList(Skip):
    """array, map. A block may have its size in bytes. `empty` items take none."""

    def __init__(self, items: AvroReader, is_map: bool, empty: bool) -> None:
        self.items = items
        self.is_map = is_map
        self.empty = empty

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        while True:
            count, position = long_at(data, position)
            if not count:
                return position
            if count < 0:
                size, position = size_at(data, position, limit)
                position += size
                continue
            if self.empty:
                continue
            if count > limit - position:
                raise AvroDecodeError(f"{count} items in {limit - position} bytes")
            for _ in range(count):
                if self.is_map:
                    size, position = size_at(data, position, limit)
                    position += size
                position = self.items.read(data, position, limit)
                if position > limit:
                    raise AvroDecodeError("items continue after the record")


class SkipUnion(Skip):
    def __init__(self, branches: list[AvroReader]) -> None:
        self.branches = branches

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        number, position = long_at(data, position)
        if number < 0 or number >= len(self.branches):
            raise AvroDecodeError(f"the union has no branch number {number}")
        return self.branches[number].read(data, position, limit)


class SkipRecord(Skip):
    """Its fields are set later, because a record may contain itself. DEPTH_MAX protects compiled
    code, which has no recursion limit."""

    def __init__(self) -> None:
        self.fields: list[AvroReader] = []
        self.depth: i64 = 0

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        if self.depth >= DEPTH_MAX:
            raise AvroDecodeError(f"records are nested more than {DEPTH_MAX} deep")
        self.depth += 1
        try:
            for field in self.fields:
                position = field.read(data, position, limit)
        finally:
            self.depth -= 1
        if position > limit:
            raise AvroDecodeError("a record continues after its bytes")
        return position
