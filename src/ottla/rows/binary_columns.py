"""Arrow's binary arrays as numpy arrays, and back."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

NO_BYTES: Final[npt.NDArray[np.uint8]] = np.zeros(0, np.uint8)

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


def binary_column(array: Any) -> Any:
    """Text or bytes of any width as `binary`."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    return array if array.type == pa.binary() else array.cast(pa.binary())


def binary_parts(array: Any) -> tuple[Bytes, Numbers, Numbers]:
    """All bytes, and the start and size of each value; the size of null is 0."""
    count = len(array)
    if count == 0:
        return NO_BYTES, np.zeros(0, np.int64), np.zeros(0, np.int64)
    _, offsets_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[array.offset : array.offset + count + 1]
    data = NO_BYTES if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    starts = offsets[:-1].astype(np.int64)
    sizes = offsets[1:].astype(np.int64) - starts
    if array.null_count:  # Arrow allows a null to have bytes
        sizes[nulls_of(array)] = 0
    return data, starts, sizes


def nulls_of(array: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return found


def binary_array(data: Bytes, sizes: Numbers) -> Any:
    """A binary array of consecutive parts of `data` with these sizes."""
    offsets = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def milliseconds(array: Any, now_ms: int) -> Numbers:
    """A column of timestamps, or of numbers in milliseconds; null becomes now."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", array.type.tz), safe=False)
    found: Numbers = array.cast(pa.int64()).fill_null(now_ms).to_numpy(zero_copy_only=False)
    return found
