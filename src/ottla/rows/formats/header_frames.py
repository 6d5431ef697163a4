"""Moves schema ids from headers to the front of payloads, where formats expect them.

A producer may write the ids or GUIDs of the schemas into the headers `__key_schema_id` and
`__value_schema_id` instead (see `ottla.schemas.framing`). As for Confluent's deserializers, such a
header takes precedence.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.formats.headers import Header
from ottla.rows.schema import FormatInfo
from ottla.rows.schema_properties import INFERRED
from ottla.schemas import framing


class HeaderFrames:
    """For the keys or the values of a topic with this format."""

    def __init__(self, format_: FormatInfo, *, of_key: bool) -> None:
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
        indexes = np.flatnonzero(found.to_numpy(zero_copy_only=False))
        starts = headers.offsets.to_numpy()
        indexes = indexes[(indexes >= starts[0]) & (indexes < starts[-1])]
        if not len(indexes):
            return data
        rows = np.searchsorted(starts, indexes, side="right") - 1
        last = np.full(len(data), -1, np.int64)
        last[rows] = indexes  # of several headers with the name, the last one wins
        frames = values.take(pa.array(last, mask=last < 0)).dictionary_encode()
        given = frames.dictionary.to_pylist()
        framed = pa.array([self._frame(header) or b"" for header in given], pa.binary())
        joined = pc.binary_join_element_wise(
            framed.take(frames.indices).fill_null(b""), data, b"", null_handling="emit_null"
        )
        wrong = {number for number, header in enumerate(given) if self._frame(header) is None}
        if not wrong:
            return joined
        unread = pc.is_in(frames.indices, value_set=pa.array(sorted(wrong), pa.int32()))
        cut = pa.array([_unframed(header) for header in given], pa.binary())
        return pc.if_else(pc.and_(unread, data.is_valid()), cut.take(frames.indices), joined)

    def framed_row(self, data: bytes | None, headers: Iterable[Header]) -> bytes | None:
        frame = self.frame_of(headers) if self._reads and data is not None else None
        if frame is None or data is None:
            return data
        found = self._frame(frame)
        return _unframed(frame) if found is None else found + data

    def frame_of(self, headers: Iterable[Header]) -> bytes | None:
        """The frame from the record's header, if it has one."""
        found = [value for name, value in headers if name == self._header and value is not None]
        return found[-1] if found else None

    def _frame(self, header: bytes) -> bytes | None:
        """The bytes to put in front of the payload; None if the header is not a schema id."""
        try:
            _, end = framing.split_frame(header)
            if self._with_indexes:
                _, end = framing.read_indexes(header, end)
        except framing.FramingError:
            return None
        return header[:end]


def _unframed(header: bytes) -> bytes:
    """Rejects a short header: otherwise the payload's first bytes would complete the frame."""
    return header[: framing.ID_FRAME.size - 1]
