"""KAFKA: one column as Java's serializers write it: big-endian numbers, UTF-8, raw bytes.

If all values have the right size, an Arrow array's data buffer is read as numbers in place.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.errors import SqlError
from ottla.rows.formats.arrow import arrow_type, spread
from ottla.rows.formats.codec import Problems, unsupported
from ottla.rows.schema import Column
from ottla.rows.types import SqlBaseType

NUMBERS: Final = {SqlBaseType.INTEGER: ">i", SqlBaseType.BIGINT: ">q", SqlBaseType.DOUBLE: ">d"}
DTYPES: Final = {SqlBaseType.INTEGER: ">i4", SqlBaseType.BIGINT: ">i8", SqlBaseType.DOUBLE: ">f8"}
TEXTS: Final = frozenset({SqlBaseType.STRING, SqlBaseType.BYTES})


class KafkaFormat:
    def __init__(self, columns: Sequence[Column]) -> None:
        if len(columns) > 1:
            raise SqlError(
                f"The 'KAFKA' format only supports a single field. Got: {len(columns)}",
                remedy="Use JSON or DELIMITED for several columns.",
            )
        self._kind = columns[0].type.kind if columns else SqlBaseType.BYTES
        self._columns = len(columns)
        if self._kind not in NUMBERS and self._kind not in TEXTS:
            raise unsupported("KAFKA", self._kind)
        self._type = arrow_type(columns[0].type) if columns else pa.binary()
        self._number = struct.Struct(NUMBERS.get(self._kind, ">b"))

    def read(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        if not self._columns:
            return [], {}
        if self._kind is SqlBaseType.BYTES:
            return [data], {}
        if self._kind is SqlBaseType.STRING:
            return self._read_strings(data)
        sizes = pc.binary_length(data).to_numpy()
        fits = sizes == self._number.size
        if fits.all():
            return [self._numbers(data)], {}
        problems = {int(row): self._misfit(int(sizes[row])) for row in np.flatnonzero(~fits)}
        return [spread(self._numbers(data.filter(pa.array(fits))), fits)], problems

    def read_row(self, data: bytes) -> list[Any]:
        if not self._columns:
            return []
        if self._kind is SqlBaseType.BYTES:
            return [data]
        if self._kind is SqlBaseType.STRING:
            return [data.decode()]
        if len(data) != self._number.size:
            raise ValueError(self._misfit(len(data)))
        return [self._number.unpack(data)[0]]

    def write(self, columns: Sequence[pa.Array], count: int) -> pa.Array:
        if not columns:
            return pa.nulls(count, pa.binary())
        column = columns[0]
        if self._kind in TEXTS:
            return column.cast(pa.binary())
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = pc.fill_null(column, 0).to_numpy().astype(DTYPES[self._kind])
        size = self._number.size
        offsets = np.arange(count + 1, dtype=np.int32) * size
        whole = pa.Array.from_buffers(
            pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(numbers.tobytes())]
        )
        return whole if valid.all() else pc.if_else(pa.array(valid), whole, None)

    def write_row(self, values: Sequence[Any]) -> bytes | None:
        if not values or values[0] is None:
            return None
        if self._kind is SqlBaseType.BYTES:
            return bytes(values[0])
        if self._kind is SqlBaseType.STRING:
            return str(values[0]).encode()
        try:
            return self._number.pack(values[0])
        except struct.error as error:
            raise ValueError(f"{values[0]!r} does not fit: {error}") from None

    def _read_strings(self, data: pa.Array) -> tuple[list[pa.Array], Problems]:
        try:
            return [data.cast(pa.string())], {}
        except pa.ArrowInvalid:
            return _decoded_singly(data)

    def _numbers(self, data: pa.Array) -> pa.Array:
        """Requires that all values have the number's size."""
        buffer = data.buffers()[2]
        if buffer is None or not len(data):
            return pa.array([], self._type)
        first = int(np.frombuffer(data.buffers()[1], np.int32, 1, data.offset * 4)[0])
        numbers = np.frombuffer(buffer, DTYPES[self._kind], len(data), first)
        return pa.array(numbers.astype(numbers.dtype.newbyteorder("=")), self._type)

    def _misfit(self, size: int) -> str:
        return f"Size of data received by {self._kind.value} is not {self._number.size} but {size}"


def _decoded_singly(data: pa.Array) -> tuple[list[pa.Array], Problems]:
    texts: list[str | None] = []
    problems: Problems = {}
    for row, payload in enumerate(data.to_pylist()):
        try:
            texts.append(payload.decode())
        except UnicodeDecodeError as error:
            problems[row] = f"not UTF-8: {error}"
            texts.append(None)
    return [pa.array(texts, pa.string())], problems
