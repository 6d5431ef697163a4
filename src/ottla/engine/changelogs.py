"""Store cells as records of changelog topics, in Kafka Streams' layout, and back.

A timestamped store keeps the timestamp in front of the value; in the topic it becomes the
record's own timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from operator import itemgetter
from typing import Final

import numpy as np
import pyarrow as pa

from ottla.engine.packed_rows import RECORDS_MAX, pack_output_columns
from ottla.engine.state_file import CellChange
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.task import StreamTask
from ottla.engine.windowed_serdes import LONG
from ottla.rows.binary_columns import Numbers, binary_parts, nulls_of

TIMESTAMPED: Final = (StoreKind.TIMESTAMPED_KEY_VALUE, StoreKind.TIMESTAMPED_WINDOW)


def changelog_cells(
    topic: str, spec: StoreSpec, changes: Iterable[CellChange], task: StreamTask
) -> Iterator[bytes]:
    """The changes of one store, packed, for the changelog partition with the task's number."""
    now_ms = max(task.stream_time, 0)
    left = iter(changes)
    while some := list(islice(left, RECORDS_MAX)):
        keys, cells = list(map(itemgetter(1), some)), list(map(itemgetter(2), some))
        values = pa.array(cells, pa.binary())
        timestamps = np.full(len(some), now_ms, np.int64)
        if spec.kind in TIMESTAMPED:
            present = ~nulls_of(values)
            stored = _timestamps(values.filter(pa.array(present)))
            timestamps[present] = np.maximum(stored, 0)
            data = [None if cell is None else cell[LONG.size :] for cell in cells]
            values = pa.array(data, pa.binary())
        yield pack_output_columns(
            topic, pa.array(keys, pa.binary()), values, timestamps, task.number
        )


def _timestamps(cells: pa.Array) -> Numbers:
    """The numbers in front of the values."""
    data, starts, _ = binary_parts(cells)
    places = starts[:, np.newaxis] + np.arange(LONG.size)
    numbers: Numbers = data[places].view(">i8").astype(np.int64).ravel()
    return numbers


def changelog_cell(spec: StoreSpec, value: bytes | None, timestamp: int) -> bytes | None:
    """The cell's bytes, from a changelog record."""
    if value is not None and spec.kind in TIMESTAMPED:
        return LONG.pack(timestamp) + value
    return value
