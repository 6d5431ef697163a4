"""Schemas that records name in a header: put in front of the payload, where formats look for them.

A producer may leave keys and values bare, and write the id or GUID of their schema into the headers
`__key_schema_id` and `__value_schema_id` (see `ottla.schemas.framing`). Where a record has such a
header, it counts, as for Confluent's deserializers.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.headers import Header
from ottla.rows.schema import Format
from ottla.rows.schema_properties import INFERRED
from ottla.schemas import framing


class HeaderFrames:
    """For the keys or the values of a topic with this format."""

    def __init__(self, format_: Format, *, of_key: bool) -> None:
        name = format_.name.upper()
        self._reads = name in INFERRED
        self._with_indexes = name == "PROTOBUF"
        self._header = framing.KEY_HEADER if of_key else framing.VALUE_HEADER

    def framed(self, data: pa.Array, headers: pa.Array | None) -> pa.Array:
        """`headers` is an array of lists of structs with two fields: key and value."""
        if not self._reads or headers is None or not len(headers.values):
            return data
        names, values = headers.values.flatten()
        found = pc.and_(pc.equal(names, self._header), values.is_valid())
        places = np.flatnonzero(found.to_numpy(zero_copy_only=False))
        starts = headers.offsets.to_numpy()
        places = places[(places >= starts[0]) & (places < starts[-1])]
        if not len(places):
            return data
        rows = np.searchsorted(starts, places, side="right") - 1
        last = np.full(len(data), -1, np.int64)
        last[rows] = places  # of several with one name the last one counts
        frames = values.take(pa.array(last, mask=last < 0)).dictionary_encode()
        given = frames.dictionary.to_pylist()
        framed = pa.array([self._frame(each) or b"" for each in given], pa.binary())
        joined = pc.binary_join_element_wise(
            framed.take(frames.indices).fill_null(b""), data, b"", null_handling="emit_null"
        )
        wrong = {number for number, each in enumerate(given) if self._frame(each) is None}
        if not wrong:
            return joined
        unread = pc.is_in(frames.indices, value_set=pa.array(sorted(wrong), pa.int32()))
        cut = pa.array([_unframed(each) for each in given], pa.binary())
        return pc.if_else(pc.and_(unread, data.is_valid()), cut.take(frames.indices), joined)

    def framed_row(self, data: bytes | None, headers: Iterable[Header]) -> bytes | None:
        frame = self.frame_of(headers) if self._reads and data is not None else None
        if frame is None or data is None:
            return data
        found = self._frame(frame)
        return _unframed(frame) if found is None else found + data

    def frame_of(self, headers: Iterable[Header]) -> bytes | None:
        """The header's value, if a record has one."""
        found = [value for name, value in headers if name == self._header and value is not None]
        return found[-1] if found else None

    def _frame(self, header: bytes) -> bytes | None:
        """What stands in front of a payload; None if the header names no schema."""
        try:
            _, end = framing.split(header)
            if self._with_indexes:
                _, end = framing.read_indexes(header, end)
        except framing.NotFramed:
            return None
        return header[:end]


def _unframed(header: bytes) -> bytes:
    """Too short for a frame: the payload must not be taken for the rest of one."""
    return header[: framing.ID_FRAME.size - 1]
