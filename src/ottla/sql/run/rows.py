"""Rows of Arrow tables as Python values."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from ottla.rows.schema import Column
from ottla.rows.types import SqlBaseType, SqlType


def python_rows(table: pa.Table, columns: Sequence[Column]) -> Iterable[tuple[Any, ...]]:
    """The first columns of the table, with values as in `ottla.rows.types`."""
    lists = []
    for index, column in enumerate(columns):
        values = table.column(index).to_pylist()
        change = _change(column.type)
        lists.append(values if change is None else [_or_none(change, value) for value in values])
    return zip(*lists, strict=True) if lists else ()


def _or_none(change: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else change(value)


def _change(type_: SqlType) -> Callable[[Any], Any] | None:
    """The conversion from Arrow's value; None if it needs none."""
    if type_.kind is SqlBaseType.TIMESTAMP:
        return _utc
    if type_.kind is SqlBaseType.MAP:
        assert type_.element is not None
        inner = _change(type_.element)
        return lambda pairs: {k: v if inner is None else _or_none(inner, v) for k, v in pairs}
    if type_.kind is SqlBaseType.ARRAY:
        assert type_.element is not None
        inner = _change(type_.element)
        return None if inner is None else lambda items: [_or_none(inner, e) for e in items]
    if type_.kind is SqlBaseType.STRUCT:
        changes = {field.name: _change(field.type) for field in type_.fields}
        if not any(changes.values()):
            return None
        return lambda row: {
            name: value if (change := changes.get(name)) is None else _or_none(change, value)
            for name, value in row.items()
        }
    return None


def _utc(value: datetime.datetime) -> datetime.datetime:
    if value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value.astimezone(datetime.UTC)
