"""Windowed keys in Kafka Streams' layouts.

tumbling, hopping   key, start (8 bytes)                 the end is start plus size
session             key, end (8 bytes), start (8 bytes)
"""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.codec import Problems
from ottla.rows.schema import WindowInfo, WindowKind

END_MAX: Final = 2**63 - 1
_LONG: Final = struct.Struct(">q")
_TWO_LONGS: Final = struct.Struct(">qq")


class WindowKeys:
    def __init__(self, windowed: WindowInfo) -> None:
        self._session = windowed.kind is WindowKind.SESSION
        self._size_ms = windowed.size_ms
        self._suffix = 16 if self._session else 8

    def split(self, keys: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array, Problems]:
        """Keys, starts and ends. A null key has no window."""
        lengths = pc.fill_null(pc.binary_length(keys), self._suffix).to_numpy()
        short = np.flatnonzero(lengths < self._suffix)
        problems = {int(row): f"{lengths[row]} bytes are not a key with a window" for row in short}
        if problems:
            keys = pc.if_else(pa.array(lengths >= self._suffix), keys, None)
        inner = pc.binary_slice(keys, 0, -self._suffix)
        starts = _longs(pc.binary_slice(keys, -8))
        if self._session:
            ends = _longs(pc.binary_slice(keys, -16, -8))
        else:
            ends = self._ends(starts)
        return inner, starts, ends, problems

    def split_row(self, key: bytes) -> tuple[bytes, int, int]:
        if len(key) < self._suffix:
            raise ValueError(f"{len(key)} bytes are too short for a windowed key")
        inner, suffix = key[: -self._suffix], key[-self._suffix :]
        if self._session:
            end, start = _TWO_LONGS.unpack(suffix)
            return inner, start, end
        start = _LONG.unpack(suffix)[0]
        return inner, start, min(END_MAX, start + self._size_ms)

    def join(self, keys: pa.Array, starts: pa.Array, ends: pa.Array | None) -> pa.Array:
        parts = [keys]
        if self._session:
            assert ends is not None
            parts.append(_bytes(ends))
        return pc.binary_join_element_wise(*parts, _bytes(starts), b"")

    def join_row(self, key: bytes, start: int, end: int | None) -> bytes:
        if not self._session:
            return key + _LONG.pack(start)
        if end is None:
            raise ValueError("a session's key needs WINDOWEND")
        return key + _TWO_LONGS.pack(end, start)

    def _ends(self, starts: pa.Array) -> pa.Array:
        last = END_MAX - self._size_ms
        return pc.add(pc.min_element_wise(starts, last, skip_nulls=False), self._size_ms)


def _longs(data: pa.Array) -> pa.Array:
    """Big-endian longs of eight bytes each, or null."""
    valid = data.is_valid().to_numpy(zero_copy_only=False)
    whole = b"".join(data.drop_null().to_pylist())
    numbers: np.ndarray[Any, Any] = np.zeros(len(data), np.int64)
    numbers[valid] = np.frombuffer(whole, ">i8")
    return pa.array(numbers, pa.int64(), mask=~valid)


def _bytes(numbers: pa.Array) -> pa.Array:
    swapped = numbers.to_numpy(zero_copy_only=False).astype(">i8").tobytes()
    offsets = np.arange(len(numbers) + 1, dtype=np.int32) * 8
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(swapped)]
    return pa.Array.from_buffers(pa.binary(), len(numbers), buffers)
