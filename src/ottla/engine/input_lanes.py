"""The records of packed cells as columns, one lane for each partition, and the order between lanes.

This is the order of record_order.py without a row per record: runs of each lane.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from ottla.engine.packed_rows import headers_of, input_rows, python_values, unpacked_batch
from ottla.engine.record_batch import PORTION, RecordBatch
from ottla.engine.records import Headers, InputRow
from ottla.engine.task_sources import TaskSource
from ottla.rows.binary_columns import Numbers

Run = tuple["Lane", int, int]
"""Some records of a lane: the first one, and the one behind the last."""


@dataclass(slots=True)
class Lane:
    """The records of one partition, in the order of their offsets."""

    topic: str
    partition: int
    offsets: Numbers
    timestamps: Numbers
    keys: Any
    values: Any
    headers: list[Headers] | None
    _portion: int = -1
    _read: RecordBatch | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def read(self, begin: int, end: int, source: TaskSource) -> RecordBatch | None:
        """Deserialized records of one portion; None if they must be read one by one."""
        portion = begin // PORTION
        first = portion * PORTION
        if portion != self._portion:
            last = first + PORTION
            self._portion = portion
            self._read = source.batch(
                self.topic,
                self.keys[first:last],
                self.values[first:last],
                self.timestamps[first:last].tolist(),
                None if self.headers is None else self.headers[first:last],
            )
        found = self._read
        return None if found is None else found.part(begin - first, end - first)

    def rows(self, begin: int, end: int) -> list[InputRow]:
        headers: list[Headers] = [()] * (end - begin)
        if self.headers is not None:
            headers = self.headers[begin:end]
        return input_rows(
            self.topic,
            self.partition,
            self.offsets[begin:end].tolist(),
            self.timestamps[begin:end].tolist(),
            python_values(self.keys[begin:end]),
            python_values(self.values[begin:end]),
            headers,
        )


def lanes_of(cells: Sequence[bytes]) -> list[Lane] | None:
    """None if the cells have rows of a prefix, or a partition's chunks are not in order."""
    found: dict[tuple[str, int], list[Any]] = defaultdict(list)
    for cell in cells:
        batch = unpacked_batch(cell)
        if "turn" in batch.schema.names:
            return None
        place = batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
        found[place].append(batch)
    lanes = []
    for (topic, partition), batches in found.items():
        lane = _lane(topic, partition, batches)
        if lane is None:
            return None
        lanes.append(lane)
    return lanes


def _lane(topic: str, partition: int, batches: list[Any]) -> Lane | None:
    def column(name: str) -> Any:
        parts = [batch.column(name) for batch in batches]
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    offsets = column("offset").to_numpy()
    if np.any(np.diff(offsets) <= 0):
        return None
    headers: list[Headers] | None = None
    if any("headers" in batch.schema.names for batch in batches):
        headers = [header for batch in batches for header in headers_of(batch)]
    try:
        keys, values = column("key"), column("value")
    except pa.ArrowInvalid:
        return None  # too many bytes for one array
    return Lane(topic, partition, offsets, column("timestamp").to_numpy(), keys, values, headers)


def runs_in_order(lanes: Sequence[Lane], tables: Container[str]) -> list[Run]:
    """The order of `in_record_order`, as runs."""
    if len(lanes) == 1:
        return [(lanes[0], 0, len(lanes[0]))]
    ordered = sorted(lanes, key=lambda it: (it.topic not in tables, (it.topic, it.partition)))
    late_as = np.concatenate([np.maximum.accumulate(lane.timestamps) for lane in ordered])
    numbers = np.repeat(np.arange(len(ordered)), [len(lane) for lane in ordered])
    merged = numbers[np.argsort(late_as, kind="stable")]
    bounds = [0, *(np.flatnonzero(np.diff(merged)) + 1).tolist(), len(merged)]
    return list(_runs(ordered, merged, bounds))


def _runs(lanes: Sequence[Lane], merged: Numbers, bounds: list[int]) -> Iterator[Run]:
    places = [0] * len(lanes)
    for begin, end in itertools.pairwise(bounds):
        number = int(merged[begin])
        first = places[number]
        places[number] = first + end - begin
        yield lanes[number], first, places[number]
