"""A schema whose root is bytes: Confluent's serializers write no size in front of the value.

They do so in Java and in Python, whatever the logical type is: a decimal at the root is its
unscaled number in two's complement, to the end of the payload. Avro's readers need the size: these
functions add and remove it.
"""

from __future__ import annotations

from ottla.schemas.avro.node import AvroNode


def is_bytes_root(root: AvroNode) -> bool:
    return root.kind == "bytes"


def with_size(data: bytes) -> bytes:
    """Add the size (a zig-zag varint) in front of the bytes, as Avro has it."""
    left, size = len(data) << 1, bytearray()
    while left > 0x7F:
        size.append(left & 0x7F | 0x80)
        left >>= 7
    size.append(left)
    return bytes(size) + data


def without_size(data: bytes) -> bytes:
    """The inverse of `with_size`."""
    start = 0
    while data[start] > 0x7F:
        start += 1
    return data[start + 1 :]
