"""Chunks of records -> rows of a DataFrame: raw records, or the typed rows of a layout.

A record that a layout can't deserialize is skipped and never fails a query. It is reported to the
logger `ottla.processing` and to the processing log's topic, if there is one.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ottla.spark.chunks import Chunk
from ottla.spark.processing_log import ProcessingLog, Unreadable

if TYPE_CHECKING:
    from ottla.rows.formats import BadRecord

processing = logging.getLogger("ottla.processing")

LOGGED_MAX: Final = 20  # of individual bad records per task


def unreadable(topic: str, bad: BadRecord) -> Unreadable:
    return Unreadable(topic, bad.partition, bad.offset, bad.half, bad.cause)


class RawRows:
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
        """Nothing to report."""

    def _repeated(self, value: Any, kind: Any, count: int) -> Any:
        """A column of one value: a slice of a cached one, if that is long enough."""
        made = self._constant.get((value, kind))
        if made is None or len(made) < count:
            made = self._constant[value, kind] = pa.repeat(pa.scalar(value, kind), count)
        return made[:count]


class LayoutRows:
    """The columns of a layout (the option `ottla.layout`)."""

    def __init__(
        self,
        schema: Any,
        layout: str,
        registry: Mapping[str, str],
        log: ProcessingLog | None = None,
    ) -> None:
        from ottla.rows.formats import Decoder
        from ottla.rows.formats.registry_format import registry_of
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
        for record in bad:
            self._bad += 1
            if self._bad <= LOGGED_MAX:
                processing.warning("%s", unreadable(chunk.topic, record))
        if bad and self._log is not None:
            self._log.write(unreadable(chunk.topic, record) for record in bad)
        return pa.RecordBatch.from_arrays(rows.columns, schema=self._schema)

    def close(self) -> None:
        if self._bad > LOGGED_MAX:
            processing.warning("Failed to deserialize %d more records", self._bad - LOGGED_MAX)
