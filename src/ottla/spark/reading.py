"""In Spark's worker: ranges of partitions -> chunks of records as columns, of a bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from ottla.build import COMPILED
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.fetching import Fetched, Fetching, Range
from ottla.records.batch import BATCH_OVERHEAD, BatchHeader
from ottla.records.compression import NONE
from ottla.records.control import read_marker
from ottla.records.record import read_payload
from ottla.spark.arrays import Columns
from ottla.spark.columns import Spans
from ottla.spark.options import ReadOptions

if COMPILED:
    from ottla.spark.columns import locate_all
else:
    from ottla.spark.vector_columns import locate_all

CHUNK_RECORDS_MAX: Final = 32_768
CHUNK_BYTES_MAX: Final = 4 * 1024 * 1024
KEPT_MAX: Final = 4

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

# Connections outlive a task: this process, Spark's worker, does the next one as well.
_kept: dict[tuple[str, str], ClusterClient] = {}


@dataclass(frozen=True, slots=True)
class Chunk:
    """Some records of one partition, as columns."""

    topic: str
    partition: int
    timestamp_type: int
    columns: Columns

    def __len__(self) -> int:
        return len(self.columns.offsets)


def read(options: ReadOptions, ranges: Sequence[Range]) -> Iterator[Chunk]:
    """The records of these ranges, each range's in its order."""
    with kept_brokers(options) as brokers:
        fetching = Fetching(
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
def kept_brokers(options: ReadOptions) -> Iterator[ClusterClient]:
    """Those of the task before, or new ones. Who fails, or stops early, leaves none behind."""
    key = (options.servers, repr(sorted(options.settings.items())))
    brokers = _kept.pop(key, None) or ClusterClient(options.servers, options.settings)
    try:
        yield brokers
    except BaseException:
        brokers.close()
        raise
    if len(_kept) < KEPT_MAX:
        _kept[key] = brokers
    else:
        brokers.close()


def let_go() -> None:
    """Close what was kept."""
    while _kept:
        _kept.popitem()[1].close()


def decode(fetched: Fetched, *, with_headers: bool, committed: bool) -> Iterator[Chunk]:
    """Batches -> chunks. What lies outside the range, markers and aborted records are left out."""
    headers = committed_only(fetched) if committed else fetched.headers
    group: list[BatchHeader] = []
    count = size = 0
    for each in headers:
        if each.control or each.next_offset <= fetched.position:
            continue
        if each.base_offset >= fetched.range.end:
            break
        ends = count + each.record_count > CHUNK_RECORDS_MAX or size + each.size > CHUNK_BYTES_MAX
        if group and (ends or group[0].log_append_time != each.log_append_time):
            yield from _chunk(fetched, group, with_headers)
            group, count, size = [], 0, 0
        group.append(each)
        count += each.record_count
        size += each.size
    if group:
        yield from _chunk(fetched, group, with_headers)


def _chunk(fetched: Fetched, group: Sequence[BatchHeader], with_headers: bool) -> Iterator[Chunk]:
    range_ = fetched.range
    kind = LOG_APPEND_TIME if group[0].log_append_time else CREATE_TIME
    for data, places in _unpacked(fetched.data, group):
        spans = Spans(with_headers)
        locate_all(data, places, spans, fetched.position, range_.end)
        if spans.count:
            yield Chunk(range_.topic, range_.partition, kind, Columns(data, spans))


def _unpacked(
    data: bytes, group: Sequence[BatchHeader]
) -> Iterator[tuple[bytes, list[tuple[BatchHeader, int, int]]]]:
    """The bytes of the records of some batches, and where each batch has its own.

    Batches that are not compressed stay where they are. Others are unpacked into one piece, or
    into several if that would be too large.
    """
    if all(each.compression == NONE for each in group):
        yield (
            data,
            [(each, each.position + BATCH_OVERHEAD, each.position + each.size) for each in group],
        )
        return
    parts: list[bytes] = []
    places: list[tuple[BatchHeader, int, int]] = []
    size = 0
    for each in group:
        payload = read_payload(data, each)
        if parts and size + len(payload) > CHUNK_BYTES_MAX:
            yield b"".join(parts), places
            parts, places, size = [], [], 0
        places.append((each, size, size + len(payload)))
        parts.append(payload)
        size += len(payload)
    yield parts[0] if len(parts) == 1 else b"".join(parts), places


def committed_only(fetched: Fetched) -> Iterator[BatchHeader]:
    """The batches without those of aborted transactions, as the list in the answer names them."""
    waiting = sorted(fetched.aborted, key=lambda each: each[1], reverse=True)
    aborted: set[int] = set()
    for each in fetched.headers:
        while waiting and waiting[-1][1] <= each.last_offset:
            aborted.add(waiting.pop()[0])
        if each.control:
            marker = read_marker(fetched.data, each)
            if marker is not None and not marker.commit:
                aborted.discard(each.producer_id)
        elif each.transactional and each.producer_id in aborted:
            continue
        yield each
