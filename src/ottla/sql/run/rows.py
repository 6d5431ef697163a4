"""Rows as Python values, out of Arrow."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from ottla.rows.schema import Column
from ottla.rows.types import Kind, SqlType


def python_rows(table: pa.Table, columns: Sequence[Column]) -> Iterable[tuple[Any, ...]]:
    """The first columns of the table, as `ottla.rows.types` says values are."""
    lists = []
    for place, column in enumerate(columns):
        values = table.column(place).to_pylist()
        change = _change(column.type)
        lists.append(values if change is None else [_or_none(change, each) for each in values])
    return zip(*lists, strict=True) if lists else ()


def _or_none(change: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else change(value)


def _change(type_: SqlType) -> Callable[[Any], Any] | None:
    """What Arrow gives in another form: None if nothing."""
    if type_.kind is Kind.TIMESTAMP:
        return _utc
    if type_.kind is Kind.MAP:
        assert type_.element is not None
        inner = _change(type_.element)
        return lambda pairs: {k: v if inner is None else _or_none(inner, v) for k, v in pairs}
    if type_.kind is Kind.ARRAY:
        assert type_.element is not None
        inner = _change(type_.element)
        return None if inner is None else lambda items: [_or_none(inner, e) for e in items]
    if type_.kind is Kind.STRUCT:
        changes = {each.name: _change(each.type) for each in type_.fields}
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
