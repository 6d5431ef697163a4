"""Reads Avro payloads into columns: the hot loop of AVRO.

A reader reads consecutive values of a type in the writer's schema and collects them as the bytes of
a column. Strings and bytes are not copied: a reader records their positions. `arrays.py` builds
Arrow arrays from all that. mypyc compiles this module (setup.py); interpreted, it behaves equally.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f32_le,
    read_i32_le,
    read_i64_le,
    write_f64_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

I64_MAX: Final = 0x7FFFFFFFFFFFFFFF
LAST_SHIFT: Final = 63  # of the tenth byte, which has one bit
DECIMAL_BYTES: Final = 16
EMPTY_ITEMS_MAX: Final = 1_000  # as in ottla.schemas.avro.empty_items


class AvroDecodeError(ValueError):
    """The bytes do not match the schema."""


class AvroReader:
    """`read` reads a value at `position` and returns the next position; `null` adds a null;
    `truncate` keeps only the first `count` values."""

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        raise NotImplementedError

    def null(self) -> None:
        raise NotImplementedError

    def truncate(self, count: i64) -> None:
        raise NotImplementedError


def read_rows(
    data: bytes, places: bytes, count: int, first: int, reader: AvroReader
) -> tuple[int, str]:
    """Reads payloads from the `first` on until one is malformed; returns its number and the error,
    else `count`.

    `places` has two i32 per payload: its start and end in `data`.
    """
    row: i64 = first
    rows: i64 = count
    try:
        while row < rows:
            position: i64 = i64(read_i32_le(places, row * 8))
            limit: i64 = i64(read_i32_le(places, row * 8 + 4))
            position = reader.read(data, position, limit)
            if position > limit:
                raise AvroDecodeError("the bytes end too early")
            if position < limit:
                raise AvroDecodeError(f"{limit - position} bytes are left over")
            row += 1
    except (AvroDecodeError, IndexError) as error:
        reader.truncate(row)
        return row, str(error) if isinstance(error, AvroDecodeError) else "the bytes end too early"
    return row, ""


def long_rest(data: bytes, position: i64, number: i64) -> tuple[i64, i64]:
    """The rest of an unsigned varlong whose first byte, `number`, has the continuation bit."""
    number &= 0x7F
    shift: i64 = 7
    while True:
        byte: i64 = data[position]
        position += 1
        if shift == LAST_SHIFT and byte > 1:
            raise AvroDecodeError("a number of more than 64 bits")
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, position
        shift += 7


def long_at(data: bytes, position: i64) -> tuple[i64, i64]:
    """A zig-zag number and the next position."""
    number: i64 = data[position]
    position += 1
    if number > 0x7F:
        number, position = long_rest(data, position, number)
    return ((number >> 1) & I64_MAX) ^ -(number & 1), position


def size_at(data: bytes, position: i64, limit: i64) -> tuple[i64, i64]:
    """The size of the following bytes, and their position."""
    number: i64 = data[position]
    position += 1
    if number > 0x7F:
        number, position = long_rest(data, position, number)
    if number & 1 or (number >> 1) & I64_MAX > limit - position:
        raise AvroDecodeError("a string or bytes value ends after the record")
    return number >> 1, position


class ColumnReader(AvroReader):
    """A reader that collects values, with a validity byte for each."""

    def __init__(self) -> None:
        self.valid = BytesWriter()
        self.nulls: i64 = 0

    def forget(self, count: i64) -> None:
        """The common part of `truncate`."""
        index: i64 = len(self.valid)
        while self.nulls and index > count:
            index -= 1
            if not self.valid[index]:
                self.nulls -= 1
        self.valid.truncate(count)


class NullReader(ColumnReader):
    """A column that the writer lacks, or that is always `null`."""

    def __init__(self) -> None:
        super().__init__()
        self.count: i64 = 0

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        self.count += 1
        return position

    def null(self) -> None:
        self.count += 1

    def truncate(self, count: i64) -> None:
        self.count = count


class EightByteReader(ColumnReader):
    """A reader with eight bytes for each value."""

    def __init__(self) -> None:
        super().__init__()
        self.values = BytesWriter()

    def null(self) -> None:
        write_i64_le(self.values, 0)
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.values.truncate(count * 8)
        self.forget(count)


class LongReader(EightByteReader):
    """int, long and their logical types, as i64; `low` and `high` are the column's range."""

    def __init__(self, low: int, high: int) -> None:
        super().__init__()
        self.low: i64 = low
        self.high: i64 = high

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        number: i64 = data[position]
        position += 1
        if number > 0x7F:
            number, position = long_rest(data, position, number)
        number = ((number >> 1) & I64_MAX) ^ -(number & 1)
        if number > self.high or number < self.low:
            raise AvroDecodeError(f"{number} is not between {self.low} and {self.high}")
        write_i64_le(self.values, number)
        self.valid.append(1)
        return position


class DoubleReader(EightByteReader):
    """float and double, as f64."""

    def __init__(self, is_float: bool) -> None:
        super().__init__()
        self.is_float = is_float

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        if self.is_float:
            write_f64_le(self.values, read_f32_le(data, position))
            position += 4
        else:
            write_i64_le(self.values, read_i64_le(data, position))
            position += 8
        self.valid.append(1)
        return position


class BooleanReader(ColumnReader):
    """boolean, as a byte."""

    def __init__(self) -> None:
        super().__init__()
        self.values = BytesWriter()

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        byte: i64 = data[position]
        if byte > 1:
            raise AvroDecodeError(f"{byte} is not a boolean")
        self.values.append(byte)
        self.valid.append(1)
        return position + 1

    def null(self) -> None:
        self.values.append(0)
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.values.truncate(count)
        self.forget(count)


class BytesReader(ColumnReader):
    """string, bytes, and fixed of `size` bytes: two i32 per value, its start and end.

    The positions of a column ascend, because payloads follow each other, so Arrow can use them as
    the offsets of an array.
    """

    def __init__(self, size: int = -1) -> None:
        super().__init__()
        self.places = BytesWriter()
        self.last: i64 = 0
        self.size: i64 = size

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        size: i64 = self.size
        if size < 0:
            size, position = size_at(data, position, limit)
        elif size > limit - position:
            raise AvroDecodeError("a fixed value ends after the record")
        write_i32_le(self.places, i32(position))
        position += size
        write_i32_le(self.places, i32(position))
        self.last = position
        self.valid.append(1)
        return position

    def null(self) -> None:
        write_i32_le(self.places, i32(self.last))
        write_i32_le(self.places, i32(self.last))
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.places.truncate(count * 8)
        self.last = i64(last_i32(self.places))
        self.forget(count)


class EnumReader(ColumnReader):
    """An enum's symbol by its number, as i32."""

    def __init__(self, symbols: int) -> None:
        super().__init__()
        self.values = BytesWriter()
        self.symbols: i64 = symbols

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        number, position = long_at(data, position)
        if number < 0 or number >= self.symbols:
            raise AvroDecodeError(f"the enum has no symbol number {number}")
        write_i32_le(self.values, i32(number))
        self.valid.append(1)
        return position

    def null(self) -> None:
        write_i32_le(self.values, 0)
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.values.truncate(count * 4)
        self.forget(count)


class DecimalReader(ColumnReader):
    """bytes or fixed, big-endian and of any length, as Arrow's 128 bits."""

    def __init__(self, size: int = -1) -> None:
        super().__init__()
        self.values = BytesWriter()
        self.size: i64 = size

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        size: i64 = self.size
        if size < 0:
            size, position = size_at(data, position, limit)
        elif size > limit - position:
            raise AvroDecodeError("a fixed value ends after the record")
        first: i64 = data[position] if size else 0
        sign: i64 = 0xFF if first > 0x7F else 0
        last: i64 = position + size
        index: i64 = last - 1
        for _ in range(DECIMAL_BYTES):
            if index >= position:
                self.values.append(data[index])
            else:
                self.values.append(sign)
            index -= 1
        while index >= position:  # bytes beyond 128 bits may only repeat the sign
            if data[index] != sign:
                raise AvroDecodeError("a decimal of more than 38 digits")
            index -= 1
        self.valid.append(1)
        return last

    def null(self) -> None:
        write_i64_le(self.values, 0)
        write_i64_le(self.values, 0)
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.values.truncate(count * DECIMAL_BYTES)
        self.forget(count)


class OptionalReader(AvroReader):
    """A union of null and one other type, whose number is `value_branch`."""

    def __init__(self, inner: AvroReader, value_branch: int) -> None:
        self.inner = inner
        self.value_byte: i64 = value_branch * 2

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        byte: i64 = data[position]
        if byte == self.value_byte:
            return self.inner.read(data, position + 1, limit)
        if byte + self.value_byte != 2:
            raise AvroDecodeError(f"the union has no branch number {byte >> 1}")
        self.inner.null()
        return position + 1

    def null(self) -> None:
        self.inner.null()

    def truncate(self, count: i64) -> None:
        self.inner.truncate(count)


class AvroRecordReader(ColumnReader):
    """A record: `steps` read or skip its fields in the writer's order; `missing` are the columns
    that the writer lacks."""

    def __init__(self, steps: list[AvroReader], missing: list[AvroReader]) -> None:
        super().__init__()
        self.steps = steps
        self.missing = missing

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        for step in self.steps:
            position = step.read(data, position, limit)
        for column in self.missing:
            column.null()
        if position > limit:
            raise AvroDecodeError("a record continues after its bytes")
        self.valid.append(1)
        return position

    def null(self) -> None:
        for step in self.steps:
            step.null()
        for column in self.missing:
            column.null()
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        for step in self.steps:
            step.truncate(count)
        for column in self.missing:
            column.truncate(count)
        self.forget(count)


class UnionReader(ColumnReader):
    """A union of several types, each with its own column, of which one per row is non-null. A
    branch None is `null`; a value of a branch that is not `kept` is an error."""

    def __init__(self, branches: list[AvroReader | None], kept: list[bool]) -> None:
        super().__init__()
        self.branches = branches
        self.kept = kept

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        number, position = long_at(data, position)
        if number < 0 or number >= len(self.branches):
            raise AvroDecodeError(f"the union has no branch number {number}")
        if not self.kept[number]:
            raise AvroDecodeError("the union has a value of a type that the column lacks")
        chosen = self.branches[number]
        for index, branch in enumerate(self.branches):
            if branch is not None and self.kept[index]:
                if index == number:
                    position = branch.read(data, position, limit)
                else:
                    branch.null()
        if chosen is None:
            self.nulls += 1
        self.valid.append(0 if chosen is None else 1)
        return position

    def null(self) -> None:
        for index, branch in enumerate(self.branches):
            if branch is not None and self.kept[index]:
                branch.null()
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        for index, branch in enumerate(self.branches):
            if branch is not None and self.kept[index]:
                branch.truncate(count)
        self.forget(count)


class ListReader(ColumnReader):
    """array, and map if there is a reader of keys: an i32 per value is the count of items up to its
    end.

    `empty` items take no bytes, so the bytes do not bound their number. A record may have
    EMPTY_ITEMS_MAX more than it has bytes, in all its arrays of this type; its end identifies it.
    """

    def __init__(
        self, items: AvroReader, keys: AvroReader | None = None, *, empty: bool = False
    ) -> None:
        super().__init__()
        self.items = items
        self.keys = keys
        self.empty = empty
        self.left: i64 = 0
        self.limit: i64 = -1
        self.ends = BytesWriter()
        self.total: i64 = 0

    def read(self, data: bytes, position: i64, limit: i64) -> i64:
        while True:
            count, position = long_at(data, position)
            if not count:
                break
            if count < 0:
                count = -count
                _, position = long_at(data, position)
            bound: i64 = limit - position  # an item takes at least a byte
            if self.empty:
                if limit != self.limit:
                    self.limit = limit
                    self.left = bound + EMPTY_ITEMS_MAX
                bound = self.left
                self.left -= count
            if count < 0 or count > bound:
                raise AvroDecodeError(f"{count} items in {limit - position} bytes")
            for _ in range(count):
                if self.keys is not None:
                    position = self.keys.read(data, position, limit)
                position = self.items.read(data, position, limit)
                if position > limit:
                    raise AvroDecodeError("items continue after the record")
            self.total += count
        write_i32_le(self.ends, i32(self.total))
        self.valid.append(1)
        return position

    def null(self) -> None:
        write_i32_le(self.ends, i32(self.total))
        self.valid.append(0)
        self.nulls += 1

    def truncate(self, count: i64) -> None:
        self.limit = -1
        self.ends.truncate(count * 4)
        self.total = i64(last_i32(self.ends))
        self.items.truncate(self.total)
        if self.keys is not None:
            self.keys.truncate(self.total)
        self.forget(count)


def last_i32(writer: BytesWriter) -> int:
    size: i64 = len(writer)
    if not size:
        return 0
    number: i64 = 0
    for index in range(4):
        number = (number << 8) | i64(writer[size - 1 - index])
    return number
