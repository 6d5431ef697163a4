"""A schema that is bytes and nothing around it: Confluent's serializers write no size in front.

In Java and in Python, whatever the logical type is: a decimal at the root is its unscaled number,
two's complement, to the end of the payload. Readers of Avro want the size; here it comes and goes.
"""

from __future__ import annotations

from ottla.schemas.avro.node import AvroNode


def is_bytes_root(root: AvroNode) -> bool:
    return root.kind == "bytes"


def with_size(data: bytes) -> bytes:
    """The rest of a payload as Avro has it: the size (a zig-zag varint), then the bytes."""
    left, size = len(data) << 1, bytearray()
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    size.append(left)
    return bytes(size) + data


def without_size(data: bytes) -> bytes:
    """What `with_size` was given."""
    start = 0
    while data[start] > 0x7F:
        start += 1
    return data[start + 1 :]
