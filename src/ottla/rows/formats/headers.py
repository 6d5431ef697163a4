"""Header columns."""

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
    pairs = [
        [tuple(header.values()) for header in record_headers or ()] for record_headers in lists
    ]
    rows = [header_values(columns, pair) for pair in pairs]
    return {
        column.name: pa.array([row[column.name] for row in rows], arrow_type(column.type))
        for column in columns
    }


def header_values(columns: Sequence[Column], headers: Iterable[Header]) -> dict[str, Any]:
    pairs = list(headers) if columns else []
    last = dict(pairs)
    return {
        column.name: (
            [{"KEY": key, "VALUE": value} for key, value in pairs]
            if column.role is Role.HEADERS
            else last.get(column.header)
        )
        for column in columns
    }
