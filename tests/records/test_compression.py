"""Codecs: interoperability with other implementations in both directions, and zip bombs."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard

from ottla.errors import ErrorCode, KafkaError
from ottla.records.compression import (
    CODEC_NAMES,
    GZIP,
    LZ4,
    NONE,
    SNAPPY,
    ZSTD,
    compress,
    decompress,
)

CODECS = range(5)
COMPRESSED = range(1, 5)
TEXT = b"".join(b"%d: the same words again and again\n" % n for n in range(5000))
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def refused(codec: int, data: bytes, size_max: int = 1 << 20) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        decompress(codec, data, size_max=size_max)
    return caught.value.code


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("data", [b"", b"x", bytes(40_000), TEXT])
def test_compressed_data_survives_a_round_trip(codec: int, data: bytes) -> None:
    packed = compress(codec, memoryview(data))
    assert decompress(codec, memoryview(packed)) == data
    assert isinstance(packed, bytes)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_text_becomes_smaller(codec: int) -> None:
    assert len(compress(codec, TEXT)) < len(TEXT) // 2


@pytest.mark.parametrize(("codec", "level"), [(GZIP, -1), (GZIP, 1), (GZIP, 9), (ZSTD, 19)])
def test_kafkas_compression_levels_are_accepted(codec: int, level: int) -> None:
    assert decompress(codec, compress(codec, TEXT, level=level)) == TEXT


@pytest.mark.parametrize("codec", CODECS)
def test_the_bound_is_exact(codec: int) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, size_max=len(TEXT)) == TEXT
    assert refused(codec, packed, len(TEXT) - 1) is ErrorCode.MESSAGE_TOO_LARGE
    assert refused(codec, packed, 0) is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_bomb_costs_no_more_than_the_bound(codec: int) -> None:
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    try:
        assert refused(codec, bomb, 1 << 20) is ErrorCode.MESSAGE_TOO_LARGE
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 << 20


def test_output_grows_beyond_the_first_guess() -> None:
    data = bytes(10 << 20)
    packed = zstandard.ZstdCompressor().compress(data)
    assert len(packed) * 8 < 16 * 1024  # so that the first buffer is the smallest one
    assert decompress(ZSTD, packed, size_max=10 << 20) == data


@pytest.mark.parametrize("codec", COMPRESSED)
def test_every_truncation_is_refused(codec: int) -> None:
    packed = compress(codec, TEXT[:1000])
    cuts = range(len(packed))
    if codec == SNAPPY:  # xerial's framing marks no end between blocks
        cuts = range(len(XERIAL) + 1, len(packed))
    for cut in cuts:
        assert refused(codec, packed[:cut]) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", COMPRESSED)
def test_junk_is_refused(codec: int) -> None:
    assert refused(codec, b"\xff" * 100) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("codec", [5, 7, -1])
def test_an_unknown_codec_is_refused(codec: int) -> None:
    assert refused(codec, b"") is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    with pytest.raises(KafkaError):
        compress(codec, b"")


def test_codec_names_are_those_of_compression_type() -> None:
    assert [CODEC_NAMES[c] for c in (NONE, GZIP, SNAPPY, LZ4, ZSTD)] == [
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    ]


def test_gzip_of_the_standard_library_both_ways() -> None:
    assert decompress(GZIP, gzip.compress(TEXT)) == TEXT
    assert gzip.decompress(compress(GZIP, TEXT)) == TEXT


def test_gzip_members_follow_each_other() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_zlib_without_gzips_header_is_refused() -> None:
    assert refused(GZIP, zlib.compress(TEXT)) is ErrorCode.CORRUPT_MESSAGE


def test_snappy_is_written_in_xerials_blocks() -> None:
    packed = compress(SNAPPY, bytes(70_000))
    assert packed.startswith(XERIAL)
    position, blocks = len(XERIAL), 0
    while position < len(packed):
        (size,) = struct.unpack_from(">i", packed, position)
        position += 4 + size
        blocks += 1
    assert (position, blocks) == (len(packed), 3)


def test_raw_snappy_is_read() -> None:
    # By the format's description: length 11, a literal of 4, a copy of 7 from 4 back.
    raw = b"\x0b" + b"\x0cabcd" + bytes([(7 - 4) << 2 | 1, 4])
    assert decompress(SNAPPY, raw) == b"abcdabcdabc"
    assert decompress(SNAPPY, XERIAL + struct.pack(">i", len(raw)) + raw) == b"abcdabcdabc"


@pytest.mark.parametrize("size", [0, -1, 8, 2**31 - 1])
def test_a_xerial_block_with_a_wrong_size_is_refused(size: int) -> None:
    raw = b"\x05\x10hello"
    assert refused(SNAPPY, XERIAL + struct.pack(">i", size) + raw) is ErrorCode.CORRUPT_MESSAGE


def test_a_declared_snappy_length_is_not_trusted() -> None:
    raw = b"\xff\xff\xff\xff\x0f\x10hello"  # it claims 4 GB
    assert refused(SNAPPY, raw) is ErrorCode.MESSAGE_TOO_LARGE
    framed = XERIAL + struct.pack(">i", len(raw)) + raw
    assert refused(SNAPPY, framed) is ErrorCode.MESSAGE_TOO_LARGE


def test_lz4_is_written_with_independent_blocks() -> None:
    flags = compress(LZ4, TEXT)[4]
    assert flags >> 6 == 1  # the frame format's version
    assert flags & 0x20  # the Java client refuses frames without this bit


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("checksums", [False, True])
@pytest.mark.parametrize("block_size", [4, 7])
def test_every_kind_of_lz4_frame_is_read(
    linked: bool, content_size: bool, checksums: bool, block_size: int
) -> None:
    packed = lz4.frame.compress(
        TEXT,
        block_linked=linked,
        store_size=content_size,
        content_checksum=checksums,
        block_checksum=checksums,
        block_size=block_size,
    )
    assert decompress(LZ4, packed) == TEXT


def test_lz4_is_read_by_others() -> None:
    assert lz4.frame.decompress(compress(LZ4, TEXT)) == TEXT
    assert lz4.frame.decompress(compress(LZ4, b"")) == b""


@pytest.mark.parametrize("content_size", [False, True])
@pytest.mark.parametrize("checksum", [False, True])
def test_every_kind_of_zstd_frame_is_read(content_size: bool, checksum: bool) -> None:
    compressor = zstandard.ZstdCompressor(write_content_size=content_size, write_checksum=checksum)
    assert decompress(ZSTD, compressor.compress(TEXT)) == TEXT


def test_streamed_zstd_is_read() -> None:
    """As the Java client and librdkafka write it: flushed in pieces, no content size."""
    stream = zstandard.ZstdCompressor().compressobj()
    pieces = []
    for start in range(0, len(TEXT), 10_000):
        pieces.append(stream.compress(TEXT[start : start + 10_000]))
        pieces.append(stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK))
    pieces.append(stream.flush())
    assert decompress(ZSTD, b"".join(pieces)) == TEXT


def test_zstd_is_read_by_others() -> None:
    assert zstandard.ZstdDecompressor().decompress(compress(ZSTD, TEXT)) == TEXT
