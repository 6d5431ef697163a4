"""ROWTIME: the record's timestamp, or the column of WITH (TIMESTAMP=...)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.rows.errors import SqlError
from ottla.rows.formats import scalars
from ottla.rows.formats.arrow import epoch_ms
from ottla.rows.formats.codec import Problems
from ottla.rows.java.timestamp_pattern import TimestampPattern
from ottla.rows.schema import Layout
from ottla.rows.types import SqlBaseType


class RowtimeExtractor:
    def __init__(self, layout: Layout) -> None:
        self._name = layout.timestamp
        self._kind = SqlBaseType.BIGINT
        self._pattern = None
        if not self._name:
            return
        column = layout.schema.find(self._name)
        if column is None:
            raise SqlError(
                f"The TIMESTAMP column set in the WITH clause does not exist in the"
                f" schema: '{self._name}'"
            )
        self._kind = column.type.kind
        if self._kind is SqlBaseType.STRING:
            if not layout.timestamp_format:
                raise SqlError(
                    f"A String timestamp field has been specified without also specifying the"
                    f" 'TIMESTAMP_FORMAT': '{self._name}'"
                )
            self._pattern = TimestampPattern(layout.timestamp_format)
        elif self._kind not in (SqlBaseType.BIGINT, SqlBaseType.TIMESTAMP):
            raise SqlError(
                f"Timestamp column, {self._name}, should be LONG(INT64), TIMESTAMP, or a String"
                f" with a TIMESTAMP_FORMAT specified"
            )
        elif layout.timestamp_format:
            raise SqlError("'TIMESTAMP_FORMAT' set, but the column is not a String")

    def of(
        self, columns: Mapping[str, pa.Array], timestamps_ms: pa.Array, deleted: pa.Array
    ) -> tuple[pa.Array, Problems]:
        """The ROWTIME of many rows. A tombstone has its record's timestamp."""
        if not self._name:
            return timestamps_ms, {}
        column = columns[self._name]
        problems: Problems = {}
        if self._kind is SqlBaseType.TIMESTAMP:
            moments = epoch_ms(column)
        elif self._kind is SqlBaseType.STRING:
            moments = self._parsed(column, problems)
        else:
            moments = column
        moments = pc.if_else(deleted, timestamps_ms, moments)
        missing = pc.fill_null(pc.less(moments, 0), True).to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(missing):
            problems.setdefault(int(row), self._no_time())
        return moments, {n: cause for n, cause in problems.items() if not deleted[n].as_py()}

    def of_row(self, row: Mapping[str, Any], timestamp_ms: int) -> int:
        if not self._name:
            return timestamp_ms
        value = row[self._name]
        if value is None:
            raise ValueError(self._no_time())
        if self._kind is SqlBaseType.TIMESTAMP:
            value = scalars.epoch_ms_of(value)
        elif self._pattern is not None:
            value = self._pattern.epoch_ms(value)
        if value < 0:
            raise ValueError(self._no_time())
        return int(value)

    def _parsed(self, column: pa.Array, problems: Problems) -> pa.Array:
        assert self._pattern is not None
        moments: list[int | None] = []
        for row, text in enumerate(column.to_pylist()):
            moment = None
            try:
                moment = None if text is None else self._pattern.epoch_ms(text)
            except ValueError as error:
                problems[row] = str(error)
            moments.append(moment)
        return pa.array(moments, pa.int64())

    def _no_time(self) -> str:
        return f"column {self._name} has no timestamp from 1970 on"
