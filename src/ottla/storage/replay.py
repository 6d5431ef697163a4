"""Rebuilding the producer state of a log from its snapshots and batches."""

from __future__ import annotations

import logging

from ottla.errors import KafkaError
from ottla.records.batch import CONTROL_BIT, BatchHeader
from ottla.records.control import Marker, read_marker
from ottla.slices import ReadableFile
from ottla.storage import scan
from ottla.storage.checkpoints import DamagedError
from ottla.storage.log_segment import LogSegment
from ottla.storage.producers import BATCHES_MAX, EXPIRATION_MS, BatchMetadata, PartitionProducers
from ottla.storage.snapshots import ProducerSnapshots
from ottla.storage.transaction_index import AbortedTransaction

_log = logging.getLogger("ottla.storage")

RECALLED_BYTES = 64 * 1024  # five batches of several producers; a start with many logs stays quick


def load_producers(
    snapshots: ProducerSnapshots, segments: list[LogSegment], end_offset: int, now_ms: int
) -> PartitionProducers:
    """Producers as of `end_offset`: from the newest whole snapshot and the batches after it."""
    producers = PartitionProducers()
    start = 0
    for offset in sorted(snapshots.offsets, reverse=True):
        if offset <= end_offset:
            try:
                producers.load(snapshots.read(offset))
            except DamagedError as damage:
                _log.warning("%s removed: %s", snapshots.path(offset), damage)
                snapshots.remove(offset)
                continue
            start = offset
            _recall_batches(segments, start, producers)
            break
    _replay(segments, start, end_offset, producers)
    producers.expire(now_ms, EXPIRATION_MS)
    return producers


def _recall_batches(segments: list[LogSegment], offset: int, producers: PartitionProducers) -> None:
    """Read the batches before each producer's last one, which a snapshot does not have.

    A producer that got no answers before a restart sends up to five batches again. With the last
    batch alone the first of them would get OUT_OF_ORDER_SEQUENCE_NUMBER, as from Kafka, which
    librdkafka treats as fatal.
    """
    earlier = [segment for segment in segments if segment.base_offset < offset and segment.size]
    if not earlier or not len(producers):
        return
    segment = earlier[-1]
    batches_before: dict[int, list[BatchMetadata]] = {}
    try:
        end = segment.position_of(offset)
        position = segment.border(max(0, end - RECALLED_BYTES))
        for header in scan.headers(segment.open_file(), position, end):
            producer = producers.get(header.producer_id)
            is_data = not header.attributes & CONTROL_BIT
            if producer is not None and is_data and producer.epoch == header.producer_epoch:
                batches_before.setdefault(header.producer_id, []).append(BatchMetadata.of(header))
    except DamagedError as damage:
        _log.error("%s: producer state is incomplete: %s", segment.path, damage)
    for producer_id, batches in batches_before.items():
        producer = producers.get(producer_id)
        assert producer is not None
        if producer.batches == batches[-1:]:
            producer.batches = batches[-BATCHES_MAX:]


def _replay(
    segments: list[LogSegment], start: int, end_offset: int, producers: PartitionProducers
) -> None:
    """Replay by headers alone: these segments are trusted, and have their transaction indexes.

    Damage in one of them neither cuts off the segments after it nor keeps the log from opening. A
    producer whose last batch it hides gets OUT_OF_ORDER_SEQUENCE_NUMBER and begins a new epoch.
    """
    for slot, segment in enumerate(segments):
        following = segments[slot + 1].base_offset if slot + 1 < len(segments) else end_offset
        if following <= start or not segment.size:
            continue
        try:
            _replay_segment(segment, start, min(following, end_offset), producers)
        except DamagedError as damage:
            _log.error("%s: producer state is incomplete: %s", segment.path, damage)


def _replay_segment(
    segment: LogSegment, start: int, end_offset: int, producers: PartitionProducers
) -> None:
    position = segment.position_of(start) if start > segment.base_offset else 0
    file = segment.open_file()
    next_offset = segment.base_offset
    for header in scan.headers(file, position, segment.size):
        segment.check_offsets(header, next_offset)
        next_offset = header.next_offset
        if next_offset > end_offset:
            raise DamagedError(f"offset {next_offset - 1} is beyond the segment")
        if header.producer_id < 0:
            continue
        if header.attributes & CONTROL_BIT:
            marker = marker_at(file, header)
            if marker is not None:
                producers.end_transaction(header, marker)
        else:
            producers.update(header)


def note_batch(producers: PartitionProducers, segment: LogSegment, header: BatchHeader) -> None:
    """Record the producer and transaction of a batch in `segment`, at its header's position."""
    if header.producer_id < 0:
        return
    if header.attributes & CONTROL_BIT:
        marker = marker_at(segment.open_file(), header)
        if marker is not None:
            note_marker(producers, segment, header, marker)
    else:
        producers.update(header)


def note_marker(
    producers: PartitionProducers, segment: LogSegment, header: BatchHeader, marker: Marker
) -> None:
    """End a transaction; an aborted one enters the index of the segment that has the marker."""
    completed = producers.end_transaction(header, marker)
    if completed is None or not completed.aborted:
        return
    # The last stable offset as of this marker: whatever began before it has ended by now, which
    # lets a reader of the index stop early (`TransactionIndex.collect`).
    still_open = producers.first_open_offset
    stable = completed.last_offset + 1 if still_open is None else still_open
    segment.transactions.append(
        AbortedTransaction(
            completed.producer_id, completed.first_offset, completed.last_offset, stable
        )
    )


def marker_at(file: ReadableFile, header: BatchHeader) -> Marker | None:
    """The marker of a control batch whose header was read from `file`."""
    position = header.position
    data = file.pread(header.size, position)
    header.position = 0
    try:
        return read_marker(data, header)
    except KafkaError as error:
        raise DamagedError(f"no marker at position {position}: {error}") from None
    finally:
        header.position = position
