"""The transaction index of a segment: which transactions were aborted in it (KIP-98).

    .txnindex   34 bytes   version i16 (0), producer id i64, first offset i64, last offset i64,
                           last stable offset i64 as it was when the marker was written

A fetch with isolation level read_committed returns these, and the consumer skips their records. Few
segments have aborted transactions, so the file exists only where there is one.
"""

from __future__ import annotations

import errno
import logging
import os
from struct import Struct
from typing import NamedTuple

from ottla.storage.checkpoints import DamagedError
from ottla.storage.files import Files

ENTRY = Struct(">hqqqq")
ENTRY_SIZE = 34
VERSION = 0

_log = logging.getLogger("ottla.storage")


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int  # of the abort marker
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions whose marker is in one segment, in the order of the markers."""

    __slots__ = ("_aborted", "_files", "_pending", "path", "written")

    def __init__(self, files: Files, path: str, file_size: int) -> None:
        self._files = files
        self.path = path
        self.written = file_size
        self._pending = b""
        self._aborted: list[AbortedTransaction] | None = None if file_size else []

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry in memory and write it; if that fails, the next flush writes it.

        The marker is in the log already, so an error here would come too late.
        """
        self.all().append(aborted)
        self._pending += ENTRY.pack(VERSION, *aborted)
        try:
            self.save()
        except OSError as error:
            _log.warning("%s not written yet: %s", self.path, error)

    def save(self) -> None:
        if self._pending:
            file = self._files.open(self.path, create=self.written == 0)
            if file.pwrite(self._pending, self.written) != len(self._pending):
                file.truncate(self.written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), self.path)
            self.written += len(self._pending)
            self._pending = b""

    def all(self) -> list[AbortedTransaction]:
        if self._aborted is None:
            self._aborted = read_aborted(self._files.read(self.path))
        return self._aborted

    def collect(self, first_offset: int, end_offset: int, into: list[AbortedTransaction]) -> bool:
        """Add the transactions that overlap [first, end) to `into`; True if that is all of them.

        When a marker was written, every transaction that began below the last stable offset of
        that moment had ended. Once it reaches `end_offset`, later markers belong to transactions
        that begin at or after `end_offset`, and the next segments need not be asked.
        """
        if self._aborted == []:
            return False
        for aborted in self.all():
            if aborted.last_offset >= first_offset and aborted.first_offset < end_offset:
                into.append(aborted)
            if aborted.last_stable_offset >= end_offset:
                return True
        return False

    def truncate(self, offset: int) -> None:
        """Remove the transactions whose marker is at or after `offset`."""
        known = self.all()
        kept = [aborted for aborted in known if aborted.last_offset < offset]
        if len(kept) < len(known):
            self._aborted = kept
            if self.written:
                self._files.remove(self.path)
                self.written = 0
            self._pending = b"".join(ENTRY.pack(VERSION, *aborted) for aborted in kept)
            self.save()

    def clear(self) -> None:
        if self.written:
            self._files.remove(self.path)
        self.written = 0
        self._pending = b""
        self._aborted = []


def read_aborted(data: bytes) -> list[AbortedTransaction]:
    """DamagedError if the bytes are not a transaction index."""
    if len(data) % ENTRY_SIZE:
        raise DamagedError(f"{len(data)} bytes are not a whole number of entries")
    found: list[AbortedTransaction] = []
    for version, *fields in ENTRY.iter_unpack(data):
        aborted = AbortedTransaction(*fields)
        if version != VERSION or not 0 <= aborted.first_offset <= aborted.last_offset:
            raise DamagedError(f"entry {len(found)} is not an aborted transaction")
        found.append(aborted)
    return found
