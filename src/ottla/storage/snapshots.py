"""Producer snapshots: the producer state at an offset, in Kafka's format, version 1.

    <offset>.snapshot   version i16 (1), crc u32 of what follows it, count i32, then 46 bytes each:
                        producer id i64, epoch i16, last sequence i32, last offset i64,
                        offset delta of the last batch i32, last timestamp i64,
                        coordinator epoch i32, first offset of the open transaction i64 (-1: none)

A roll writes one, named after the new segment, and so does a clean shutdown. A start loads the
newest whole snapshot and replays only the batches after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla.records.checksum import crc32c
from ottla.storage.checkpoints import DamagedError
from ottla.storage.files import Files
from ottla.storage.log_segment import file_name
from ottla.storage.producers import NO_OFFSET, NO_SEQUENCE, BatchMetadata, ProducerStateEntry

VERSION = 1
SUFFIX = ".snapshot"

_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
_ENTRY = Struct(">qhiqiqiq")
_COUNT_POSITION = _PREFIX.size
_ENTRIES_POSITION = _PREFIX.size + _COUNT.size


class ProducerSnapshots:
    """The snapshot files of one log, by their offsets."""

    __slots__ = ("_dir", "_files", "offsets")

    def __init__(self, files: Files, path: str, offsets: Iterable[int] = ()) -> None:
        self._files = files
        self._dir = path
        self.offsets = set(offsets)

    def path(self, offset: int) -> str:
        return f"{self._dir}/{file_name(offset)}{SUFFIX}"

    def read(self, offset: int) -> list[ProducerStateEntry]:
        return read_snapshot(self._files.read(self.path(offset)))

    def take(self, offset: int, producers: Iterable[ProducerStateEntry]) -> None:
        """Written without a sync: a flush does that, and until then the checksum guards it."""
        self._files.replace(self.path(offset), write_snapshot(producers), sync=False)
        self.offsets.add(offset)

    def remove(self, offset: int) -> None:
        if offset in self.offsets:
            self.offsets.discard(offset)
            self._files.remove(self.path(offset))


def write_snapshot(producers: Iterable[ProducerStateEntry]) -> bytes:
    entries = bytearray(_COUNT.size)
    count = 0
    for producer in producers:
        last = producer.batches[-1] if producer.batches else None
        entries += _ENTRY.pack(
            producer.producer_id,
            producer.epoch,
            NO_SEQUENCE if last is None else last.last_sequence,
            NO_OFFSET if last is None else last.last_offset,
            0 if last is None else last.offset_delta,
            producer.last_timestamp,
            producer.coordinator_epoch,
            producer.transaction_offset,
        )
        count += 1
    _COUNT.pack_into(entries, 0, count)
    return _PREFIX.pack(VERSION, crc32c(entries)) + entries


def read_snapshot(data: bytes) -> list[ProducerStateEntry]:
    """DamagedError if the checksum or the size shows that the bytes are not those written."""
    if len(data) < _ENTRIES_POSITION:
        raise DamagedError(f"a snapshot of {len(data)} bytes")
    version, crc = _PREFIX.unpack_from(data)
    if version != VERSION:
        raise DamagedError(f"snapshot version {version}")
    if crc != crc32c(data[_COUNT_POSITION:]):
        raise DamagedError("wrong checksum")
    (count,) = _COUNT.unpack_from(data, _COUNT_POSITION)
    if count < 0 or _ENTRIES_POSITION + count * _ENTRY.size != len(data):
        raise DamagedError(f"{count} producers in {len(data)} bytes")
    return [_producer(*fields) for fields in _ENTRY.iter_unpack(data[_ENTRIES_POSITION:])]


def _producer(
    producer_id: int,
    epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    last_timestamp: int,
    coordinator_epoch: int,
    transaction_offset: int,
) -> ProducerStateEntry:
    batch = BatchMetadata(last_sequence, last_offset, offset_delta, last_timestamp)
    return ProducerStateEntry(
        producer_id,
        epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=last_timestamp,
        transaction_offset=transaction_offset,
        batches=(batch,) if last_offset >= 0 else (),
    )
