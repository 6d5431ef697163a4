"""Reads offset ranges in Spark's workers, as chunks of columns of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ottla.build import COMPILED
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.range_fetcher import CompletedFetch, OffsetRange, RangeFetcher
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader
from ottla.records.compression import NONE
from ottla.records.control import read_marker
from ottla.records.record import read_payload
from ottla.spark.options import ReadOptions
from ottla.spark.record_arrays import RecordArrays
from ottla.spark.record_spans import RecordSpans

if COMPILED:
    from ottla.spark.record_spans import locate_spans
else:
    from ottla.spark.vector_spans import locate_spans

CHUNK_RECORDS_MAX: Final = 32_768
CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
CACHED_MAX: Final = 4

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

# Connections outlive a task, because Spark's worker runs the next one in the same process.
_cached_clients: dict[tuple[str, str], ClusterClient] = {}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of one partition, as columns."""

    topic: str
    partition: int
    timestamp_type: int
    columns: RecordArrays

    def __len__(self) -> int:
        return len(self.columns.offsets)


def read_chunks(options: ReadOptions, ranges: Sequence[OffsetRange]) -> Iterator[Chunk]:
    """The records of these ranges, in offset order within each range."""
    with cached_client(options) as brokers:
        fetching = RangeFetcher(
            brokers,
            read_committed=options.read_committed,
            fail_on_data_loss=options.fail_on_data_loss,
            poll_timeout_s=options.poll_timeout_ms / 1000,
            fetch_bytes_max=options.fetch_bytes_max,
        )
        for fetched in fetching.fetch(ranges):
            yield from decode(
                fetched, with_headers=options.with_headers, committed=options.read_committed
            )


@contextmanager
def cached_client(options: ReadOptions) -> Iterator[ClusterClient]:
    """A cached client, or a new one. It is closed instead of cached after an error or an early
    stop, because a response may still be in flight."""
    key = (options.servers, repr(sorted(options.settings.items())))
    brokers = _cached_clients.pop(key, None) or ClusterClient(options.servers, options.settings)
    try:
        yield brokers
    except BaseException:
        brokers.close()
        raise
    if len(_cached_clients) < CACHED_MAX:
        _cached_clients[key] = brokers
    else:
        brokers.close()


def close_cached_clients() -> None:
    """Closes the cached clients."""
    while _cached_clients:
        _cached_clients.popitem()[1].close()


def decode(fetched: CompletedFetch, *, with_headers: bool, committed: bool) -> Iterator[Chunk]:
    """Batches -> chunks, without markers, aborted records, and records outside the range."""
    headers = committed_only(fetched) if committed else fetched.headers
    group: list[BatchHeader] = []
    count = size = 0
    for header in headers:
        if header.control or header.next_offset <= fetched.position:
            continue
        if header.base_offset >= fetched.range.end:
            break
        ends = (
            count + header.record_count > CHUNK_RECORDS_MAX or size + header.size > CHUNK_BYTES_MAX
        )
        if group and (ends or group[0].log_append_time != header.log_append_time):
            yield from _chunk(fetched, group, with_headers)
            group, count, size = [], 0, 0
        group.append(header)
        count += header.record_count
        size += header.size
    if group:
        yield from _chunk(fetched, group, with_headers)


def _chunk(
    fetched: CompletedFetch, group: Sequence[BatchHeader], with_headers: bool
) -> Iterator[Chunk]:
    range_ = fetched.range
    kind = LOG_APPEND_TIME if group[0].log_append_time else CREATE_TIME
    for data, places in _unpacked(fetched.data, group):
        spans = RecordSpans(with_headers)
        locate_spans(data, places, spans, fetched.position, range_.end)
        if spans.count:
            yield Chunk(range_.topic, range_.partition, kind, RecordArrays(data, spans))


def _unpacked(
    data: bytes, group: Sequence[BatchHeader]
) -> Iterator[tuple[bytes, list[tuple[BatchHeader, int, int]]]]:
    """The bytes of some batches' records, and the position of each batch in them.

    Uncompressed batches are not copied. Others are decompressed into one buffer, or into several
    if it would be too large.
    """
    if all(header.compression == NONE for header in group):
        yield (
            data,
            [
                (header, header.position + BATCH_OVERHEAD, header.position + header.size)
                for header in group
            ],
        )
        return
    parts: list[bytes] = []
    places: list[tuple[BatchHeader, int, int]] = []
    size = 0
    for header in group:
        payload = read_payload(data, header)
        if parts and size + len(payload) > CHUNK_BYTES_MAX:
            yield b"".join(parts), places
            parts, places, size = [], [], 0
        places.append((header, size, size + len(payload)))
        parts.append(payload)
        size += len(payload)
    yield parts[0] if len(parts) == 1 else b"".join(parts), places


def committed_only(fetched: CompletedFetch) -> Iterator[BatchHeader]:
    """The batches without those of the aborted transactions that the Fetch response lists."""
    waiting = sorted(fetched.aborted, key=lambda transaction: transaction[1], reverse=True)
    aborted: set[int] = set()
    for header in fetched.headers:
        while waiting and waiting[-1][1] <= header.last_offset:
            aborted.add(waiting.pop()[0])
        if header.control:
            marker = read_marker(fetched.data, header)
            if marker is not None and not marker.commit:
                aborted.discard(header.producer_id)
        elif header.transactional and header.producer_id in aborted:
            continue
        yield header
