"""The two ways in which a batch's payload changes after its producer wrote it.

`recompress` is for topics whose compression.type is not `producer`; `rebuild_batch` is for the
cleaner, which removes records. Everything else in the broker passes on the producer's bytes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.records.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    BatchHeader,
    write_batch,
)
from ottla.records.checksum import Buffer
from ottla.records.compression import DECOMPRESSED_SIZE_MAX, compress
from ottla.records.record import Record, read_payload, write_records


def recompress(
    data: Buffer,
    header: BatchHeader,
    codec: int,
    *,
    level: int | None = None,
    size_max: int = DECOMPRESSED_SIZE_MAX,
) -> bytes | None:
    """The batch with its payload in another codec; None if it already has that codec.

    All other fields stay, and so do the bytes of the records. Control batches are left alone, as in
    Kafka.
    """
    if header.compression == codec or header.control:
        return None
    payload = compress(codec, read_payload(data, header, size_max=size_max), level=level)
    changed = _copy(header)
    changed.attributes = header.attributes & ~COMPRESSION_MASK | codec
    return write_batch(changed, payload)


def rebuild_batch(
    header: BatchHeader, records: Sequence[Record], *, delete_horizon_ms: int | None = None
) -> bytes:
    """The batch with only these of its records, which keep their offsets.

    Base and last offset, epoch and producer fields stay, so that the header still shows sequences
    and offsets; there may be no record left at all. With `delete_horizon_ms` the base
    timestamp becomes the time at which tombstones may go (KIP-534), from which the deltas count.
    """
    changed = _copy(header)
    changed.record_count = len(records)
    if not records:
        changed.attributes &= ~(COMPRESSION_MASK | DELETE_HORIZON_BIT)
        changed.base_timestamp = NO_TIMESTAMP
        return write_batch(changed, b"")
    if delete_horizon_ms is not None:
        changed.attributes |= DELETE_HORIZON_BIT
        changed.base_timestamp = delete_horizon_ms
    if not header.log_append_time:
        changed.max_timestamp = max(record.timestamp for record in records)
    deltas = [record.offset - header.base_offset for record in records]
    payload = write_records(records, deltas, changed.base_timestamp)
    return write_batch(changed, compress(header.compression, payload))


def _copy(header: BatchHeader) -> BatchHeader:
    return BatchHeader(
        position=0,
        base_offset=header.base_offset,
        size=0,
        leader_epoch=header.leader_epoch,
        magic=header.magic,
        crc=0,
        attributes=header.attributes,
        last_offset_delta=header.last_offset_delta,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        record_count=header.record_count,
    )
