"""The partitions of a whole column of keys, by Java's murmur2."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ottla.rows.binary_columns import binary_parts

SEED: Final = 0x9747B28C
M: Final = np.uint32(0x5BD1E995)
POSITIVE: Final = np.uint32(0x7FFFFFFF)
WORD: Final = 4

Hashes = npt.NDArray[np.uint32]


def partitions_of(keys: Any, count: int) -> npt.NDArray[np.int32]:
    """The partitions that Java's default partitioner chooses; null hashes as empty."""
    found: npt.NDArray[np.int32] = ((murmur2(keys) & POSITIVE) % np.uint32(count)).astype(np.int32)
    return found


def murmur2(keys: Any) -> Hashes:
    """The hashes of a binary array: mixes the first word of all keys, then the second, ..."""
    data, starts, sizes = binary_parts(keys)
    hashes = (SEED ^ sizes).astype(np.uint32)
    words = sizes // WORD
    # Longest first, so that the keys with a further word are always a prefix.
    order = np.argsort(-words, kind="stable")
    left = words[order]
    begin = starts[order]
    mixed = hashes[order]
    for word in range(int(words.max(initial=0))):
        active = int(np.searchsorted(-left, -word, side="left"))
        at = begin[:active] + word * WORD
        k = _word(data, at) * M
        k ^= k >> np.uint32(24)
        k *= M
        mixed[:active] = (mixed[:active] * M) ^ k
    hashes[order] = mixed
    _mix_tails(hashes, data, starts + words * WORD, sizes % WORD)
    hashes ^= hashes >> np.uint32(13)
    hashes *= M
    hashes ^= hashes >> np.uint32(15)
    return hashes


def _word(data: npt.NDArray[np.uint8], at: npt.NDArray[np.int64]) -> Hashes:
    """Four little-endian bytes at each position."""
    word = data[at].astype(np.uint32)
    for byte in (1, 2, 3):
        word |= data[at + byte].astype(np.uint32) << np.uint32(8 * byte)
    return word


def _mix_tails(
    hashes: Hashes,
    data: npt.NDArray[np.uint8],
    at: npt.NDArray[np.int64],
    rest: npt.NDArray[np.int64],
) -> None:
    """Mixes the one to three bytes after the last whole word."""
    for byte in (2, 1, 0):
        rows = np.flatnonzero(rest > byte)
        hashes[rows] ^= data[at[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    rows = np.flatnonzero(rest)
    hashes[rows] *= M
