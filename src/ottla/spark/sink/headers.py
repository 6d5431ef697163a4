"""The headers of records, encoded."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.records.record import write_varint


def encode_headers(array: Any) -> Any:
    """array<struct<key: string, value: binary>> as binary: their count, and each; null has none."""
    return pa.array([_encode(each) for each in array.to_pylist()], pa.binary())


def _encode(headers: list[dict[str, Any] | None] | None) -> bytes:
    out = bytearray()
    pairs = [each for each in headers or () if each is not None]
    write_varint(out, len(pairs))
    for each in pairs:
        name = (each["key"] or "").encode()
        write_varint(out, len(name))
        out += name
        value = each["value"]
        if value is None:
            write_varint(out, -1)
        else:
            write_varint(out, len(value))
            out += value
    return bytes(out)
