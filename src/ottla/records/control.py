"""Control records: the markers that end a transaction in each of its partitions.

    key    version i16 (0), type i16 (0 = ABORT, 1 = COMMIT)
    value  version i16 (0), coordinator epoch i32

A marker is the only record of its batch, which has the control and the transactional bit, the
producer's id and epoch, and no sequence. Consumers skip it; to brokers it is the end of the
transaction.
"""

from __future__ import annotations

import struct

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import BatchHeader, build_batch
from ottla.records.checksum import Buffer
from ottla.records.record import Record, read_records

ABORT = 0
COMMIT = 1

CONTROL_SIZE_MAX = 4096  # of a marker's batch, decompressed; Ottla's have 20 bytes

_VERSION = 0
_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")


class Marker:
    """The end of one producer's transaction."""

    __slots__ = ("commit", "coordinator_epoch")

    def __init__(self, commit: bool, coordinator_epoch: int) -> None:
        self.commit = commit
        self.coordinator_epoch = coordinator_epoch

    def __repr__(self) -> str:
        return f"Marker(commit={self.commit}, coordinator_epoch={self.coordinator_epoch})"


def build_marker(
    marker: Marker, *, producer_id: int, producer_epoch: int, timestamp: int, leader_epoch: int = -1
) -> bytes:
    """The batch with a marker, which each partition of the transaction appends."""
    record = Record(
        timestamp=timestamp,
        key=_KEY.pack(_VERSION, COMMIT if marker.commit else ABORT),
        value=_VALUE.pack(_VERSION, marker.coordinator_epoch),
    )
    return build_batch(
        [record],
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def read_marker(data: Buffer, header: BatchHeader) -> Marker | None:
    """The marker in a control batch; None for other control records, which only KRaft logs have.

    Later versions may append fields to key and value, and so longer ones are read too.
    """
    records = read_records(data, header, size_max=CONTROL_SIZE_MAX)
    if not records:  # the cleaner may keep the header of a marker that it has removed
        return None
    key, value = records[0].key, records[0].value
    if key is None or len(key) < _KEY.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"key of a control record: {key!r}")
    version, kind = _KEY.unpack_from(key)
    if version < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"control record of version {version}")
    if kind != ABORT and kind != COMMIT:
        return None
    if value is None or len(value) < _VALUE.size:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"value of a marker: {value!r}")
    _, coordinator_epoch = _VALUE.unpack_from(value)
    return Marker(kind == COMMIT, coordinator_epoch)
