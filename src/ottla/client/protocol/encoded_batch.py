"""A record batch whose records are encoded; the header is written when it is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ottla.records.batch import MAGIC, TRANSACTIONAL_BIT, BatchHeader, read_header, write_batch
from ottla.records.compression import compress
from ottla.records.record import Record, read_records, write_records


@dataclass(slots=True)
class EncodedBatch:
    """A complete record batch, but for its producer id, epoch and sequence number."""

    count: int
    base_timestamp: int
    max_timestamp: int
    compression: int
    payload: bytes

    def stamped(
        self, *, producer_id: int, producer_epoch: int, sequence: int, transactional: bool
    ) -> bytes:
        """The bytes of the batch."""
        header = BatchHeader(
            position=0,
            base_offset=0,
            size=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=self.compression | (TRANSACTIONAL_BIT if transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            record_count=self.count,
        )
        return write_batch(header, self.payload)

    def halves(self) -> tuple[EncodedBatch, EncodedBatch]:
        """Two batches with the same records, for a topic that refuses a batch of this size."""
        whole = self.stamped(producer_id=-1, producer_epoch=-1, sequence=-1, transactional=False)
        records = read_records(whole, read_header(whole))
        middle = self.count // 2
        return self._of(records[:middle]), self._of(records[middle:])

    def _of(self, records: Sequence[Record]) -> EncodedBatch:
        base = records[0].timestamp
        payload = write_records(records, range(len(records)), base)
        latest = max(record.timestamp for record in records)
        return EncodedBatch(
            len(records), base, latest, self.compression, compress(self.compression, payload)
        )
