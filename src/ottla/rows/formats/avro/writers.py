"""Writes rows as Avro payloads: the hot loop of writing AVRO.

A writer has the Arrow buffers of a column and writes the value of any row. mypyc compiles this
module (setup.py); interpreted, it behaves equally.
"""

from __future__ import annotations

from typing import Final

from librt.strings import (
    BytesWriter,
    read_f64_le,
    read_i32_le,
    read_i64_le,
    write_f32_le,
    write_i32_le,
    write_i64_le,
)
from mypy_extensions import i32, i64

DECIMAL_BYTES: Final = 16
TOO_LARGE: Final = "the payloads of a batch are over 2 GiB"
BATCH_BYTES_MAX: Final = 0x7FFFFFFF


class AvroEncodeError(ValueError):
    """A value that the schema does not allow."""


class AvroWriter:
    """`write` appends the value of the row (or item) with this number."""

    def write(self, row: i64, out: BytesWriter) -> None:
        raise NotImplementedError


def write_rows(
    writer: AvroWriter, count: int, prefix: bytes, skipped: bytes
) -> tuple[bytes, bytes]:
    """All rows as payloads, each after `prefix`, and their `count` + 1 offsets (i32).

    `skipped` has a byte per row, 1 for a row without a payload; or it is empty.
    """
    out = BytesWriter()
    offsets = BytesWriter()
    write_i32_le(offsets, 0)
    rows: i64 = count
    row: i64 = 0
    while row < rows:
        if not skipped or not skipped[row]:
            out.write(prefix)
            writer.write(row, out)
        if len(out) > BATCH_BYTES_MAX:
            raise AvroEncodeError(TOO_LARGE)
        write_i32_le(offsets, i32(len(out)))
        row += 1
    return out.getvalue(), offsets.getvalue()


def write_long(out: BytesWriter, number: i64) -> None:
    """Zig-zag, computed in groups of bits, because a compiled number has only 64."""
    sign: i64 = -1 if number < 0 else 0
    rest: i64 = number ^ sign  # not negative
    byte: i64 = ((rest & 0x3F) << 1) | (sign & 1)
    rest >>= 6
    while rest:
        out.append(byte | 0x80)
        byte = rest & 0x7F
        rest >>= 7
    out.append(byte)


class LongWriter(AvroWriter):
    """int, long, enum: i64 values, which are `factor` times the written ones (a TIMESTAMP is in
    microseconds)."""

    def __init__(self, values: bytes, factor: int = 1) -> None:
        self.values = values
        self.factor: i64 = factor

    def write(self, row: i64, out: BytesWriter) -> None:
        number: i64 = read_i64_le(self.values, row * 8)
        if self.factor != 1:
            number = number // self.factor
        write_long(out, number)


class DoubleWriter(AvroWriter):
    def __init__(self, values: bytes, is_float: bool) -> None:
        self.values = values
        self.is_float = is_float

    def write(self, row: i64, out: BytesWriter) -> None:
        if self.is_float:
            write_f32_le(out, read_f64_le(self.values, row * 8))
        else:
            write_i64_le(out, read_i64_le(self.values, row * 8))


class BooleanWriter(AvroWriter):
    """`values` has a byte per value."""

    def __init__(self, values: bytes) -> None:
        self.values = values

    def write(self, row: i64, out: BytesWriter) -> None:
        out.append(self.values[row])


class BytesWriterOf(AvroWriter):
    """string, bytes, fixed of `size`: Arrow's offsets and data."""

    def __init__(self, offsets: bytes, data: bytes, size: int = -1) -> None:
        self.offsets = offsets
        self.data = data
        self.size: i64 = size

    def write(self, row: i64, out: BytesWriter) -> None:
        start: i64 = i64(read_i32_le(self.offsets, row * 4))
        end: i64 = i64(read_i32_le(self.offsets, row * 4 + 4))
        if self.size < 0:
            write_long(out, end - start)
        elif end - start != self.size:
            raise AvroEncodeError(f"a fixed of {self.size} bytes can't have {end - start}")
        out.write(self.data[start:end])


class DecimalWriter(AvroWriter):
    """128 bits, little-endian, written with the minimal number of bytes, or with `size`."""

    def __init__(self, values: bytes, size: int = -1) -> None:
        self.values = values
        self.size: i64 = size

    def write(self, row: i64, out: BytesWriter) -> None:
        values = self.values
        low: i64 = row * DECIMAL_BYTES
        high: i64 = low + DECIMAL_BYTES - 1
        sign: i64 = 0xFF if values[high] > 0x7F else 0
        while high > low and values[high] == sign and (values[high - 1] ^ sign) < 0x80:
            high -= 1
        size: i64 = high - low + 1
        if self.size < 0:
            write_long(out, size)
        elif size > self.size:
            raise AvroEncodeError(f"a decimal of {size} bytes does not fit into {self.size}")
        else:
            for _ in range(self.size - size):
                out.append(sign)
        while high >= low:
            out.append(values[high])
            high -= 1


class OptionalWriter(AvroWriter):
    """A union of null and one other type. `valid` has a byte per value, or is empty."""

    def __init__(self, inner: AvroWriter, valid: bytes, value_branch: int) -> None:
        self.inner = inner
        self.valid = valid
        self.value_byte: i64 = value_branch * 2

    def write(self, row: i64, out: BytesWriter) -> None:
        if self.valid and not self.valid[row]:
            out.append(2 - self.value_byte)
        else:
            out.append(self.value_byte)
            self.inner.write(row, out)


class BranchWriter(AvroWriter):
    """A branch of a larger union."""

    def __init__(
        self, inner: AvroWriter, valid: bytes, value_branch: int, null_branch: int
    ) -> None:
        self.inner = inner
        self.valid = valid
        self.value_branch: i64 = value_branch
        self.null_branch: i64 = null_branch

    def write(self, row: i64, out: BytesWriter) -> None:
        if self.valid and not self.valid[row]:
            if self.null_branch < 0:
                raise AvroEncodeError("a value is null, which the schema does not allow")
            write_long(out, self.null_branch)
        else:
            write_long(out, self.value_branch)
            self.inner.write(row, out)


class RequiredWriter(AvroWriter):
    """A non-nullable type: rejects null."""

    def __init__(self, inner: AvroWriter, valid: bytes, name: str) -> None:
        self.inner = inner
        self.valid = valid
        self.name = name

    def write(self, row: i64, out: BytesWriter) -> None:
        if self.valid and not self.valid[row]:
            raise AvroEncodeError(f"{self.name} is null, which the schema does not allow")
        self.inner.write(row, out)


class DefaultWriter(AvroWriter):
    """A non-nullable field with a default, which is written for null."""

    def __init__(self, inner: AvroWriter, valid: bytes, default: bytes) -> None:
        self.inner = inner
        self.valid = valid
        self.default = default

    def write(self, row: i64, out: BytesWriter) -> None:
        if self.valid[row]:
            self.inner.write(row, out)
        else:
            out.write(self.default)


class ConstantWriter(AvroWriter):
    """A field without a column: its default, or null."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def write(self, row: i64, out: BytesWriter) -> None:
        out.write(self.data)


class AvroRecordWriter(AvroWriter):
    def __init__(self, fields: list[AvroWriter]) -> None:
        self.fields = fields

    def write(self, row: i64, out: BytesWriter) -> None:
        for field in self.fields:
            field.write(row, out)


class ListWriter(AvroWriter):
    """array, and map if there is a writer of keys: Arrow's offsets, and the items' writer."""

    def __init__(self, offsets: bytes, items: AvroWriter, keys: AvroWriter | None = None) -> None:
        self.offsets = offsets
        self.items = items
        self.keys = keys

    def write(self, row: i64, out: BytesWriter) -> None:
        start: i64 = i64(read_i32_le(self.offsets, row * 4))
        end: i64 = i64(read_i32_le(self.offsets, row * 4 + 4))
        if end > start:
            write_long(out, end - start)
            index: i64 = start
            while index < end:
                if self.keys is not None:
                    self.keys.write(index, out)
                self.items.write(index, out)
                index += 1
        out.append(0)
