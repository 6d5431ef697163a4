"""Readers of what no column wants: they find where the next value begins.

Compiled by mypyc together with readers.py.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from ottla.rows.formats.avro.readers import AvroReader, Malformed, long_at, size_at

DEPTH_MAX: Final = 200  # of records that hold themselves


class Skip(AvroReader):
    """A value that is not kept."""

    def null(self) -> None:
        return

    def truncate(self, count: i64) -> None:
        return


class SkipFixed(Skip):
    """So many bytes: null, boolean, float, double, fixed."""

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
    """array, map. A block may say how many bytes it has. `empty` items take none."""

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
                raise Malformed(f"{count} items in {limit - position} bytes")
            for _ in range(count):
                if self.is_map:
                    size, position = size_at(data, position, limit)
                    position += size
                position = self.items.read(data, position, limit)
                if position > limit:
                    raise Malformed("items go on behind the record")


class SkipUnion(Skip):
    def __init__(self, branches: list[AvroReader]) -> None:
        self.branches = branches

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        number, position = long_at(data, position)
        if number < 0 or number >= len(self.branches):
            raise Malformed(f"the union has no branch number {number}")
        return self.branches[number].read(data, position, limit)


class SkipRecord(Skip):
    """Its fields are set later, because a record may hold itself; compiled code has no other limit
    of its depth."""

    def __init__(self) -> None:
        self.fields: list[AvroReader] = []
        self.depth: i64 = 0

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        if self.depth >= DEPTH_MAX:
            raise Malformed(f"records are nested more than {DEPTH_MAX} deep")
        self.depth += 1
        try:
            for field in self.fields:
                position = field.read(data, position, limit)
        finally:
            self.depth -= 1
        if position > limit:
            raise Malformed("a record goes on behind its bytes")
        return position
