"""Encodes the headers of records."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.records.record import write_varint


def encode_headers(array: Any) -> Any:
    """array<struct<key: string, value: binary>> -> binary: the count, then the headers. A null
    array has no headers."""
    return pa.array([_encode(headers) for headers in array.to_pylist()], pa.binary())


def _encode(headers: list[dict[str, Any] | None] | None) -> bytes:
    out = bytearray()
    pairs = [header for header in headers or () if header is not None]
    write_varint(out, len(pairs))
    for pair in pairs:
        name = (pair["key"] or "").encode()
        write_varint(out, len(name))
        out += name
        value = pair["value"]
        if value is None:
            write_varint(out, -1)
        else:
            write_varint(out, len(value))
            out += value
    return bytes(out)
