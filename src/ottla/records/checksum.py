"""CRC-32C (Castagnoli), the checksum of record batches: the processor's own instruction."""

from __future__ import annotations

from crc32c import crc32c as _crc32c

Buffer = bytes | bytearray | memoryview


def crc32c(data: Buffer) -> int:
    """The checksum of `data`, read in place: pass a memoryview to cover a part without a copy."""
    return _crc32c(data)
