"""Chunks of records -> rows of a DataFrame: records as they are, or what a layout makes of them.

A record that a layout can't make a row of is left out, and never ends a query. The log
`ottla.processing` names it, and so does the topic of the processing log where there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark.processing_log import ProcessingLog, Unreadable
from ottla.spark.reading import Chunk

if TYPE_CHECKING:
    from ottla.rows.formats import BadRecord

processing = logging.getLogger("ottla.processing")

TOLD_MAX: Final = 20  # of bad records, each by itself, in one task


def tell_bad(topic: str, bad: Sequence[BadRecord]) -> None:
    """For who reads a topic by itself, without a task of Spark's: each chunk is told of alone."""
    for each in bad[:TOLD_MAX]:
        _tell(topic, each)
    if len(bad) > TOLD_MAX:
        processing.warning("%d more records of %s are no rows", len(bad) - TOLD_MAX, topic)


def _tell(topic: str, bad: BadRecord) -> None:
    processing.warning("%s", unreadable(topic, bad))


def unreadable(topic: str, bad: BadRecord) -> Unreadable:
    return Unreadable(topic, bad.partition, bad.offset, bad.half, bad.cause)


class Raw:
    """The columns of Spark's Kafka source."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._constant: dict[tuple[Any, Any], Any] = {}

    def batch(self, chunk: Chunk) -> Any:
        columns = chunk.columns
        count = len(chunk)
        arrays = [
            columns.keys,
            columns.values,
            self._repeated(chunk.topic, pa.string(), count),
            self._repeated(chunk.partition, pa.int32(), count),
            columns.offsets,
            columns.timestamps,
            self._repeated(chunk.timestamp_type, pa.int32(), count),
        ]
        if columns.headers is not None:
            arrays.append(columns.headers)
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def close(self) -> None:
        """Nothing is left to say."""

    def _repeated(self, value: Any, kind: Any, count: int) -> Any:
        """A column of one value: a part of one that was made before, where that is long enough."""
        made = self._constant.get((value, kind))
        if made is None or len(made) < count:
            made = self._constant[value, kind] = pa.repeat(pa.scalar(value, kind), count)
        return made[:count]


class Typed:
    """The columns of a layout (the option `ottla.layout`)."""

    def __init__(
        self,
        schema: Any,
        layout: str,
        registry: Mapping[str, str],
        log: ProcessingLog | None = None,
    ) -> None:
        from ottla.rows.formats import Decoder
        from ottla.rows.formats.registered import registry_of
        from ottla.rows.schema import Layout

        self._schema = schema
        self._decoder = Decoder(Layout.from_json(layout), registry_of(registry))
        self._bad = 0
        self._log = log

    def batch(self, chunk: Chunk) -> Any:
        columns = chunk.columns
        rows, bad = self._decoder.decode(
            columns.keys,
            columns.values,
            columns.timestamps_ms,
            pa.repeat(pa.scalar(chunk.partition, pa.int32()), len(chunk)),
            columns.offsets,
            columns.headers,
        )
        for each in bad:
            self._bad += 1
            if self._bad <= TOLD_MAX:
                _tell(chunk.topic, each)
        if bad and self._log is not None:
            self._log.write(unreadable(chunk.topic, each) for each in bad)
        return pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)

    def close(self) -> None:
        if self._bad > TOLD_MAX:
            processing.warning("%d more records are no rows", self._bad - TOLD_MAX)
