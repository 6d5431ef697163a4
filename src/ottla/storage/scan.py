"""Walking from batch to batch in a segment's file, by their headers.

A header gives the length of its batch, and so the position of the next one. Bytes that cannot be a
header, or that lead beyond the end, raise `DamagedError`: the batches behind them cannot be found.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from ottla.errors import KafkaError
from ottla.records.batch import (
    BATCH_OVERHEAD,
    CRC_DATA_POSITION,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    read_header,
)
from ottla.records.checksum import crc32c
from ottla.slices import ReadableFile
from ottla.storage.checkpoints import DamagedError

FIND_SIZE = 8 * 1024  # read at once when looking for an offset: two index intervals
CHUNK_SIZE = 1024 * 1024  # read at once when going through a whole segment

_LOOK = Struct(">qi4xb6xi")  # base offset, length, magic, last offset delta
_LOOK_SIZE = 27
LENGTH_MIN = BATCH_OVERHEAD - LOG_OVERHEAD


def scan_to_offset(file: ReadableFile, offset: int, position: int, end: int) -> int:
    """HOT. Position of the first batch that ends at or after `offset`; `end` if there is none.

    `position` must be 0, or that of a batch which does not begin after `offset`.
    """
    first = position
    while position < end:
        chunk = file.pread(min(FIND_SIZE, end - position), position)
        at = 0
        last = len(chunk) - _LOOK_SIZE
        if last < 0:
            raise DamagedError(f"no batch header at position {position}")
        while at <= last:
            base_offset, length, magic, last_offset_delta = _LOOK.unpack_from(chunk, at)
            if length < LENGTH_MIN or magic != MAGIC:
                raise DamagedError(f"no batch header at position {position + at}")
            if base_offset + last_offset_delta >= offset:
                if base_offset > offset and first and position + at == first:
                    raise DamagedError(f"the index leads too far, to position {first}")
                found: int = position + at
                return found
            at += LOG_OVERHEAD + length
        position += at
    if position > end:
        raise DamagedError(f"a batch reaches {position - end} bytes beyond the end")
    return end


def batch_size(file: ReadableFile, position: int, end: int) -> int:
    """HOT. The size of the batch at `position`."""
    chunk = file.pread(_LOOK_SIZE, position)
    if len(chunk) < _LOOK_SIZE:
        raise DamagedError(f"no batch header at position {position}")
    _, length, magic, _ = _LOOK.unpack(chunk)
    size: int = LOG_OVERHEAD + length
    if length < LENGTH_MIN or magic != MAGIC or position + size > end:
        raise DamagedError(f"no whole batch at position {position}")
    return size


def headers(file: ReadableFile, position: int, end: int) -> Iterator[BatchHeader]:
    """The headers from the batch at `position` on; their `position` is that in the file."""
    while position < end:
        chunk = file.pread(min(CHUNK_SIZE, end - position), position)
        at = 0
        while at + BATCH_OVERHEAD <= len(chunk):
            header = _header(chunk, at, position + at)
            size = header.size
            if position + at + size > end:
                raise DamagedError(f"the batch at position {position + at} is cut off")
            header.position = position + at
            yield header
            at += size
        if at == 0:
            raise DamagedError(f"no batch header at position {position}")
        position += at


def checked_headers(file: ReadableFile, position: int, end: int) -> Iterator[BatchHeader]:
    """As `headers`, but reads every byte and checks each batch's checksum."""
    while position < end:
        chunk = memoryview(file.pread(min(CHUNK_SIZE, end - position), position))
        size = len(chunk)
        at = 0
        while at + BATCH_OVERHEAD <= size:
            header = _header(chunk, at, position + at)
            following = at + header.size
            if position + following > end:
                raise DamagedError("the batch is cut off")
            if following <= size:
                crc = crc32c(chunk[at + CRC_DATA_POSITION : following])
            elif at > 0:
                break  # begin the next chunk with this batch
            else:
                crc = _crc_of_large(file, position, header.size)
            if crc != header.crc:
                raise DamagedError("wrong checksum")
            if header.last_offset_delta < 0 or header.base_offset < 0:
                raise DamagedError("offsets below zero")
            header.position = position + at
            yield header
            at = following
        if at == 0:
            raise DamagedError("less than a batch header")
        position += at


def _header(chunk: bytes | memoryview, at: int, position: int) -> BatchHeader:
    try:
        return read_header(chunk, at)
    except KafkaError as error:
        raise DamagedError(f"no batch at position {position}: {error.message}") from None


def _crc_of_large(file: ReadableFile, position: int, size: int) -> int:
    """Piece by piece: a damaged length must not read a gigabyte into memory."""
    crc = 0
    at = CRC_DATA_POSITION
    while at < size:
        piece = file.pread(min(CHUNK_SIZE, size - at), position + at)
        if not piece:
            raise DamagedError("the batch is cut off")
        crc = crc32c(piece, crc)
        at += len(piece)
    return crc
