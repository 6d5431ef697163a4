"""How far the dead letters of one partition were redriven, with gaps.

The position is a committed offset of a group, so that it can be part of a transaction. All letters
below it are done. Above it, the offset's metadata has a bit for each letter that is done as well,
because filters may leave out letters that somebody redrives later.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Final

METADATA_BYTES_MAX: Final = 4095  # offset.metadata.max.bytes, less the NUL of confluent-kafka


class RedrivePosition:
    """`offset` is the first letter that is not done."""

    def __init__(self, offset: int, metadata: str | None = None) -> None:
        self.offset = offset
        self._done = 0  # bit n: the letter at offset + n is done

        text = (metadata or "").rstrip("\0")
        if text:
            try:
                self._done = int.from_bytes(zlib.decompress(base64.b64decode(text)), "little")
            except (ValueError, binascii.Error, zlib.error):
                raise ValueError(f"no redrive has committed this metadata: {text!r}") from None

    def is_done(self, offset: int) -> bool:
        return offset < self.offset or bool(self._done >> (offset - self.offset) & 1)

    def mark(self, first: int, last: int | None = None) -> None:
        """These letters are done: one, or all from `first` to `last`."""
        last = first if last is None else last
        first = max(first, self.offset)
        if first > last:
            return
        self._done |= ((1 << (last - first + 1)) - 1) << (first - self.offset)
        done = (~self._done & (self._done + 1)).bit_length() - 1  # the trailing one bits
        self.offset += done
        self._done >>= done

    @property
    def metadata(self) -> str:
        if not self._done:
            return ""
        size = (self._done.bit_length() + 7) // 8
        return base64.b64encode(zlib.compress(self._done.to_bytes(size, "little"))).decode()

    @property
    def fits(self) -> bool:
        """False: too many letters were left out to remember the others."""
        return len(self.metadata) <= METADATA_BYTES_MAX
