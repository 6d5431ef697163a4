from __future__ import annotations

import random

import pyarrow as pa
import pytest

from ottla.rows.java.murmur2_columns import murmur2, partitions_of

# Of Kafka's own tests of its hash.
KNOWN = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def plain(data: bytes) -> int:
    """The same, written plainly, one key at a time."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = 0x9747B28C ^ len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * m & mask
        k = (k ^ k >> 24) * m & mask
        h = (h * m & mask) ^ k
    if rest := data[whole:]:
        h = (h ^ int.from_bytes(rest, "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return h ^ h >> 15


def test_known_hashes() -> None:
    hashes = murmur2(pa.array(list(KNOWN), pa.binary()))
    assert [int(hash_) for hash_ in hashes.view("int32")] == list(KNOWN.values())


@pytest.mark.parametrize("seed", range(3))
def test_column_hashes_equal_single_hashes(seed: int) -> None:
    draw = random.Random(seed)
    keys = [draw.randbytes(draw.randrange(50)) for _ in range(500)]
    column = pa.array([b"before", *keys, b"behind"], pa.binary()).slice(1, len(keys))
    assert [int(hash_) for hash_ in murmur2(column)] == [plain(key) for key in keys]


def test_partitions_are_never_negative() -> None:
    keys = pa.array([b"%d" % number for number in range(1000)], pa.binary())
    assert set(partitions_of(keys, 7).tolist()) == set(range(7))


def test_an_empty_column_has_no_hashes() -> None:
    assert len(murmur2(pa.array([], pa.binary()))) == 0
    assert murmur2(pa.array([None, b""], pa.binary())).tolist() == [plain(b"")] * 2
