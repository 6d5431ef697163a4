"""Kafka's compression types by cramjam, with a bound on the decompressed size.

    id  name    what is on the wire
    0   none    the records themselves
    1   gzip    gzip members
    2   snappy  raw snappy blocks in xerial's framing (the Java client), or one raw block
                (librdkafka, Go clients); both are read, xerial is written
    3   lz4     the LZ4 frame format
    4   zstd    zstd frames, with or without a content size (Java and librdkafka stream them)

The output buffer grows up to `size_max` and no further. A batch of a megabyte can claim to hold
terabytes, so every length that a client wrote is checked against that bound before it is used.
"""

from __future__ import annotations

import struct

import cramjam

from ottla.errors import ErrorCode, KafkaError
from ottla.records.checksum import Buffer

NONE = 0
GZIP = 1
SNAPPY = 2
LZ4 = 3
ZSTD = 4

CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")  # the id is the index

# The defaults of Kafka's topic configs compression.{gzip,lz4,zstd}.level (KIP-390).
GZIP_LEVEL = 6
LZ4_LEVEL = 9
ZSTD_LEVEL = 3

# The bound on a decompressed batch if the caller passes none. Two orders of magnitude above the
# default max.message.bytes: real text compresses 100 to 1, zip bombs 1000 to 1 and more.
DECOMPRESSED_SIZE_MAX = 128 * 1024 * 1024

# The first guess at an output is never smaller, so that most batches fit at once.
_OUTPUT_SIZE_MIN = 16 * 1024
_OUTPUT_GROWTH = 8

# cramjam reports a full output buffer only by its error message; a test pins the text.
_OUTPUT_FULL = "failed to write whole buffer"

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
# The version, and the oldest version that can read it.
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_SIZE = 32 * 1024  # uncompressed bytes per block, as in the Java library
_LENGTH = struct.Struct(">i")


def compress(codec: int, data: Buffer, *, level: int | None = None) -> bytes:
    """`data` as the payload of a batch whose attributes say `codec`."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        return bytes(
            cramjam.gzip.compress(data, level=GZIP_LEVEL if level is None or level < 0 else level)
        )
    if codec == SNAPPY:
        return _compress_xerial(data)
    if codec == LZ4:
        return _compress_lz4(data, LZ4_LEVEL if level is None else level)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))
    raise _unsupported_compression(codec)


def _compress_lz4(data: Buffer, level: int) -> bytes:
    """With independent blocks, because the Java client reads no others."""
    compressor = cramjam.lz4.Compressor(level=level, content_checksum=False, block_linked=False)
    compressor.compress(bytes(data))  # it takes nothing else
    return bytes(compressor.finish())


def decompress(codec: int, data: Buffer, *, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """The decompressed payload. CORRUPT_MESSAGE if the bytes are not of that codec;
    MESSAGE_TOO_LARGE beyond `size_max`, which makes a producer send smaller batches."""
    if codec == NONE:
        if len(data) > size_max:
            raise _too_large(codec, size_max)
        return bytes(data)
    try:
        if codec == GZIP:
            return _decompress_growing(codec, data, size_max)
        if codec == SNAPPY:
            return _decompress_snappy(data, size_max)
        if codec == LZ4:
            return _decompress_growing(codec, data, size_max)
        if codec == ZSTD:
            return _decompress_growing(codec, data, size_max)
    except cramjam.DecompressionError as error:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{CODEC_NAMES[codec]}: {error}") from error
    raise _unsupported_compression(codec)


def _decompress_growing(codec: int, data: Buffer, size_max: int) -> bytes:
    """Decompress into a buffer of a guessed size, then larger ones while it is full.

    Repeating from the start costs at most an eighth more, and keeps the bound exact: a streaming
    decompressor gives no say in how much one piece of input may unpack to.
    """
    size = min(size_max, max(_OUTPUT_SIZE_MIN, _OUTPUT_GROWTH * len(data)))
    while True:
        output = bytearray(size)
        try:
            written = _decompress_into(codec, data, output)
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= size_max:
                raise _too_large(codec, size_max) from error
            size = min(size_max, size * _OUTPUT_GROWTH)
            continue
        return bytes(memoryview(output)[:written])


def _decompress_into(codec: int, data: Buffer, output: bytearray) -> int:
    if codec == GZIP:
        return cramjam.gzip.decompress_into(data, output)
    if codec == LZ4:
        return cramjam.lz4.decompress_into(data, output)
    return cramjam.zstd.decompress_into(data, output)


def _compress_xerial(data: Buffer) -> bytes:
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _XERIAL_BLOCK_SIZE):
        block = bytes(cramjam.snappy.compress_raw(view[position : position + _XERIAL_BLOCK_SIZE]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: Buffer, size_max: int) -> bytes:
    view = memoryview(data)
    if view[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_block(view, size_max)
    parts: list[bytes] = []
    room = size_max
    position = len(_XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "snappy: torn block length")
        (size,) = _LENGTH.unpack_from(view, position)
        position += 4
        if size <= 0 or position + size > len(view):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"snappy: block of {size} bytes")
        part = _decompress_block(view[position : position + size], room)
        room -= len(part)
        parts.append(part)
        position += size
    return b"".join(parts)


def _decompress_block(block: memoryview, size_max: int) -> bytes:
    size = cramjam.snappy.decompress_raw_len(block)
    if size > size_max:
        raise _too_large(SNAPPY, size_max)
    output = bytearray(size)
    written = cramjam.snappy.decompress_raw_into(block, output)
    return bytes(memoryview(output)[:written])


def _too_large(codec: int, size_max: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"{CODEC_NAMES[codec]}: the records unpack to more than {size_max} bytes",
    )


def _unsupported_compression(codec: int) -> KafkaError:
    return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {codec}")
