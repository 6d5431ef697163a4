"""PushRowReader: reads the rows that a lowered push query sends."""

from __future__ import annotations

from typing import Any

from ottla.sql.lowering.row_serdes import PackedSerde
from ottla.sql.plan.stages import QueryPlan


class PushRowReader:
    def __init__(self, plan: QueryPlan) -> None:
        self._columns = [column.name for column in plan.schema.columns]
        self._keys = [column.name for column in plan.schema.key]
        self._values = [column.name for column in plan.schema.value]
        self._is_table = plan.layout.is_table
        self._windowed = plan.layout.windowed is not None
        self._read = PackedSerde().deserialize

    def read(self, key: bytes | None, value: bytes | None) -> tuple[tuple[Any, ...], bool] | None:
        """A row, and whether it is a tombstone; None for a record of a stream without a value."""
        found, values = self._read("", key), self._read("", value)
        if values is None and not self._is_table:
            return None
        row: dict[str, Any] = {} if values is None else dict(zip(self._values, values, strict=True))
        plain = found.key if self._windowed and found is not None else found
        if plain is not None:
            row.update(zip(self._keys, plain, strict=True))
        return tuple(map(row.get, self._columns)), values is None
