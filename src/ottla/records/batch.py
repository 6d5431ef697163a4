"""Record batches, format v2 (magic 2): the header read, checked, patched and built.

    position  field                 covered by the CRC
    0         base offset      i64  no: the leader writes it in place
    8         length           i32  no: bytes that follow this field
    12        leader epoch     i32  no: the leader writes it in place
    16        magic            i8   no
    17        crc              u32
    21        attributes       i16  yes, as is everything from here on
    23        last offset delta i32
    27        base timestamp   i64
    35        max timestamp    i64
    43        producer id      i64
    51        producer epoch   i16
    53        base sequence    i32
    57        record count     i32
    61        records, compressed as the attributes say

Attributes: bits 0-2 compression, 3 timestamp type (1 = LogAppendTime), 4 transactional, 5 control,
6 base timestamp holds the delete horizon (KIP-534).

The broker handles a batch by these 61 bytes alone and does not look at its records. The errors of
`check_batches`, by the origin of the batch:

    what is wrong                                       client             coordinator  leader
    no batch at all                                     INVALID_RECORD     the same     fine
    more than one batch (Produce v3 and later)          INVALID_RECORD     fine         fine
    a last batch that is cut off                        CORRUPT_MESSAGE    the same     left out
    a size below 61, a magic that does not exist        CORRUPT_MESSAGE    the same     the same
    magic 0 or 1 (messages of Produce v0 to v2)         INVALID_RECORD     the same     the same
    larger than `batch_size_max`                        MESSAGE_TOO_LARGE  the same     fine
    checksum                                            CORRUPT_MESSAGE    the same     the same
    compression type 5, 6 or 7            UNSUPPORTED_COMPRESSION_TYPE     the same     the same
    record count below 1, or not last offset delta + 1  INVALID_RECORD     the same     fine
    more records than its bytes can hold                INVALID_RECORD     the same     fine
    record count or last offset delta below 0           INVALID_RECORD     the same     the same
    base offset other than 0; a leader's out of range   INVALID_RECORD     fine  CORRUPT_MESSAGE
    a control batch                                     INVALID_RECORD     fine         fine
    a producer id without epoch or sequence             INVALID_RECORD     fine         fine
    transactional without a producer id                 INVALID_RECORD     fine         fine
    timestamp type LogAppendTime                        INVALID_TIMESTAMP  fine         fine

Kafka 4 answers the same with three exceptions. It drops a torn batch after a whole one and calls a
torn first one INVALID_RECORD; here a client that miscounts its bytes gets an error. It has no error
for an unknown codec. And it checks every record, which here only a compacted topic needs
(`records_without_key`).

A leader's batches may be compacted, so counts and deltas no longer match, and may end
anywhere, as a fetch is cut by size. zstd before Produce v7 is the handler's: `uses_zstd`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum

from ottla.errors import ErrorCode, KafkaError
from ottla.records.checksum import Buffer, crc32c
from ottla.records.compression import NONE, compress
from ottla.records.compression import ZSTD as ZSTD
from ottla.records.record import RECORD_SIZE_MIN, Record, write_records

LOG_OVERHEAD = 12  # base offset and length: what `length` does not count
BATCH_OVERHEAD = 61
MAGIC = 2

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

COMPRESSION_MAX = 4  # zstd
SEQUENCE_MASK = 0x7FFFFFFF  # after 2^31 - 1 sequences continue at 0
OFFSET_MAX = (1 << 63) - 2  # an end offset, which is one more, must have room as well
NO_PRODUCER_ID = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

# Fields of the header at which something is written in place, or at which the checksum begins.
LEADER_EPOCH_POSITION = 12
CRC_POSITION = 17
CRC_DATA_POSITION = 21  # attributes: the first byte the CRC covers
MAX_TIMESTAMP_POSITION = 35

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_DATA = struct.Struct(">hiqqqhii")  # the header's part of what the CRC covers
_PREFIX = struct.Struct(">qiibI")
_INT64 = struct.Struct(">q")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT16 = struct.Struct(">h")


class AppendOrigin(IntEnum):
    """Where batches come from. A client is trusted least; a leader has checked its batches."""

    CLIENT = 0
    COORDINATOR = 1
    LEADER = 2


_CLIENT = AppendOrigin.CLIENT  # looking a member up by name costs more than the comparison
_LEADER = AppendOrigin.LEADER


class BatchHeader:
    """The 61 bytes before a batch's records, and their position in the data."""

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "last_offset_delta",
        "leader_epoch",
        "magic",
        "max_timestamp",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size",
    )

    def __init__(
        self,
        position: int,
        base_offset: int,
        size: int,
        leader_epoch: int,
        magic: int,
        crc: int,
        attributes: int,
        last_offset_delta: int,
        base_timestamp: int,
        max_timestamp: int,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
        record_count: int,
    ) -> None:
        self.position = position
        self.base_offset = base_offset
        self.size = size  # of the whole batch: 12 more than the length field says
        self.leader_epoch = leader_epoch
        self.magic = magic
        self.crc = crc
        self.attributes = attributes
        self.last_offset_delta = last_offset_delta
        self.base_timestamp = base_timestamp
        self.max_timestamp = max_timestamp
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.base_sequence = base_sequence
        self.record_count = record_count

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def log_append_time(self) -> bool:
        return self.attributes & LOG_APPEND_TIME_BIT != 0

    @property
    def transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop this batch's tombstones (KIP-534); None before it was set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None

    @property
    def has_producer(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK

    def __repr__(self) -> str:
        return (
            f"BatchHeader(position={self.position}, size={self.size},"
            f" leader_epoch={self.leader_epoch}, base_offset={self.base_offset},"
            f" last_offset_delta={self.last_offset_delta},"
            f" record_count={self.record_count}, attributes={self.attributes:#x},"
            f" base_timestamp={self.base_timestamp}, max_timestamp={self.max_timestamp},"
            f" producer_id={self.producer_id}, producer_epoch={self.producer_epoch},"
            f" base_sequence={self.base_sequence})"
        )


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`, without a look at the checksum.

    CORRUPT_MESSAGE if there are fewer than 61 bytes, or if size or magic cannot be a batch's: a
    header that is returned always leads on to the next one, `size` bytes later.
    """
    if position < 0 or position + BATCH_OVERHEAD > len(data):
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch header at {position}")
    # fmt: off
    (base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
     base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
     record_count) = _HEADER.unpack_from(data, position)
    size: int = length + LOG_OVERHEAD
    if magic != MAGIC or size < BATCH_OVERHEAD:
        message = f"size {size}, magic {magic} at {position}"
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, message)
    return BatchHeader(
        position, base_offset, size, leader_epoch, magic, crc, attributes, last_offset_delta,
        base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
    )
    # fmt: on


def check_batches(
    data: Buffer, *, batch_size_max: int, origin: AppendOrigin = AppendOrigin.CLIENT
) -> list[BatchHeader]:
    """The headers of the batches in `data`; KafkaError if any of them must not be appended.

    The table at the head of this file lists the errors.
    """
    view = data if isinstance(data, memoryview) else memoryview(data)
    end = len(view)
    from_leader = origin is _LEADER
    from_client = origin is _CLIENT
    headers: list[BatchHeader] = []
    position = 0
    while position < end:
        if position + BATCH_OVERHEAD > end:
            if from_leader:
                break
            raise _no_header(view, position)
        # fmt: off
        (base_offset, length, leader_epoch, magic, crc, attributes, last_offset_delta,
         base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence,
         record_count) = _HEADER.unpack_from(view, position)
        # fmt: on
        size: int = length + LOG_OVERHEAD
        following = position + size
        if magic != MAGIC or size < BATCH_OVERHEAD:
            raise _not_a_batch(size, magic, position)
        if not from_leader and size > batch_size_max:
            raise _too_large(size, batch_size_max)
        if following > end:
            if from_leader:
                break
            raise _torn(position)
        if from_client and position > 0:
            raise KafkaError(ErrorCode.INVALID_RECORD, "more than one record batch")
        if crc != crc32c(view[position + CRC_DATA_POSITION : following]):
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"wrong checksum in batch at {position}")
        if attributes & COMPRESSION_MASK > COMPRESSION_MAX:
            raise _unknown_codec(attributes)
        # fmt: off
        header = BatchHeader(
            position, base_offset, size, leader_epoch, magic, crc, attributes, last_offset_delta,
            base_timestamp, max_timestamp, producer_id, producer_epoch, base_sequence, record_count,
        )
        # fmt: on
        if from_leader:
            if last_offset_delta < 0 or record_count < 0:
                raise _invalid(f"{record_count} records, last offset delta {last_offset_delta}")
            if not 0 <= base_offset <= OFFSET_MAX - last_offset_delta:
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"base offset {base_offset}")
        else:
            _check_leader_append(header, from_client)
        headers.append(header)
        position = following
    if not headers and not from_leader:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
    return headers


def uses_zstd(data: Buffer) -> bool:
    """True if a client's payload is zstd, which Produce allows from v7 on (KIP-110)."""
    position = CRC_DATA_POSITION + 1  # the low byte of the attributes
    return len(data) > position and data[position] & COMPRESSION_MASK == ZSTD


def patch(data: memoryview, position: int, base_offset: int, leader_epoch: int) -> None:
    """Write the leader's two fields in place; the checksum does not cover them."""
    _INT64.pack_into(data, position, base_offset)
    _INT32.pack_into(data, position + LEADER_EPOCH_POSITION, leader_epoch)


def rewrite_timestamps(data: memoryview, position: int, append_time_ms: int) -> None:
    """message.timestamp.type=LogAppendTime: one timestamp for all records, in the header alone.

    The records keep the deltas their producer wrote; readers ignore them once the bit is set.
    """
    header = read_header(data, position)
    attributes = header.attributes | LOG_APPEND_TIME_BIT
    _INT16.pack_into(data, position + CRC_DATA_POSITION, attributes)
    _INT64.pack_into(data, position + MAX_TIMESTAMP_POSITION, append_time_ms)
    checksum = crc32c(data[position + CRC_DATA_POSITION : position + header.size])
    _UINT32.pack_into(data, position + CRC_POSITION, checksum)


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    compression: int = NONE,
    leader_epoch: int = -1,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytes:
    """One batch of `records`; they get the offsets from `base_offset` on, whatever they had."""
    if not records:
        raise ValueError("a batch has at least one record")
    attributes = compression
    if transactional:
        attributes |= TRANSACTIONAL_BIT
    if control:
        attributes |= CONTROL_BIT
    base_timestamp = records[0].timestamp
    max_timestamp = max(record.timestamp for record in records)
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME_BIT
        max_timestamp = log_append_time_ms
    header = BatchHeader(
        position=0,
        base_offset=base_offset,
        size=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    payload = write_records(records, range(len(records)), base_timestamp)
    return write_batch(header, compress(compression, payload))


def write_batch(header: BatchHeader, payload: Buffer) -> bytes:
    """The bytes of a batch with these header fields and this compressed payload.

    Size, magic and checksum are worked out here; the header's own are not looked at.
    """
    covered = _CRC_DATA.pack(
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )
    checksum = crc32c(payload, crc32c(covered))
    length = BATCH_OVERHEAD - LOG_OVERHEAD + len(payload)
    prefix = _PREFIX.pack(header.base_offset, length, header.leader_epoch, MAGIC, checksum)
    return b"".join((prefix, covered, payload))


def _check_leader_append(header: BatchHeader, from_client: bool) -> None:
    count = header.record_count
    if count < 1 or count != header.last_offset_delta + 1:
        raise _invalid(f"{count} records, but last offset delta {header.last_offset_delta}")
    attributes = header.attributes
    payload_size = header.size - BATCH_OVERHEAD
    least = 1 if attributes & COMPRESSION_MASK else count * RECORD_SIZE_MIN
    if payload_size < least:
        raise _invalid(f"{count} records in {payload_size} bytes")
    if not from_client:
        return
    if header.base_offset != 0:
        raise _invalid(f"base offset {header.base_offset} of a client's batch is not 0")
    if attributes & CONTROL_BIT:
        raise _invalid("clients may not write control batches")
    if attributes & LOG_APPEND_TIME_BIT:
        raise KafkaError(ErrorCode.INVALID_TIMESTAMP, "producers may not set LogAppendTime")
    if header.producer_id > NO_PRODUCER_ID:
        if header.producer_epoch < 0 or header.base_sequence < 0:
            raise _invalid(
                f"producer {header.producer_id} with epoch {header.producer_epoch}"
                f" and sequence {header.base_sequence}"
            )
    elif attributes & TRANSACTIONAL_BIT:
        raise _invalid("transactional, but without a producer id")


def _no_header(view: memoryview, position: int) -> KafkaError:
    """Too short for a v2 header: a torn batch, or a whole message of an older format."""
    if position + CRC_POSITION <= len(view):
        magic = view[position + CRC_POSITION - 1]
        if magic < MAGIC:
            return _not_a_batch(BATCH_OVERHEAD, magic, position)
    return _torn(position)


def _not_a_batch(size: int, magic: int, position: int) -> KafkaError:
    if 0 <= magic < MAGIC:
        return _invalid(f"magic {magic}: only record batches of magic 2 are accepted")
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"size {size}, magic {magic} at {position}")


def _too_large(size: int, batch_size_max: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the record batch has {size} bytes, max.message.bytes is {batch_size_max}",
    )


def _torn(position: int) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch at {position} is cut off")


def _unknown_codec(attributes: int) -> KafkaError:
    codec = attributes & COMPRESSION_MASK
    return KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"unknown compression type {codec}")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, message)
