"""The partition of one key, by Java's murmur2. (murmur2_columns.py handles whole columns.)"""

from __future__ import annotations

import struct
from typing import Final

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995
MASK: Final = 0xFFFFFFFF


def partition_of(key: bytes, count: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % count


def murmur2(data: bytes) -> int:
    size = len(data)
    whole = size & ~3
    found = SEED ^ size
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        k = word * M & MASK
        k = (k ^ k >> 24) * M & MASK
        found = (found * M & MASK) ^ k
    if size > whole:
        found = (found ^ int.from_bytes(data[whole:], "little")) * M & MASK
    found = (found ^ found >> 13) * M & MASK
    return found ^ found >> 15
