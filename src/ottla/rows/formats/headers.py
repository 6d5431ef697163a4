"""Columns that are a record's headers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from ottla.rows.formats.arrow import arrow_type
from ottla.rows.schema import Column, Role

Header = tuple[str, bytes | None]


def header_columns(
    columns: Sequence[Column], headers: pa.Array | None, count: int
) -> dict[str, pa.Array]:
    """`headers` is an array of lists of structs with two fields: key and value."""
    if not columns:
        return {}
    lists = [None] * count if headers is None else headers.to_pylist()
    pairs = [[tuple(each.values()) for each in one or ()] for one in lists]
    rows = [header_values(columns, each) for each in pairs]
    return {
        each.name: pa.array([row[each.name] for row in rows], arrow_type(each.type))
        for each in columns
    }


def header_values(columns: Sequence[Column], headers: Iterable[Header]) -> dict[str, Any]:
    pairs = list(headers) if columns else []
    last = dict(pairs)
    return {
        each.name: (
            [{"KEY": key, "VALUE": value} for key, value in pairs]
            if each.role is Role.HEADERS
            else last.get(each.header)
        )
        for each in columns
    }
