"""Producer snapshots in Kafka's format, and the transaction index."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from ottla.storage.checkpoints import DamagedError
from ottla.storage.producers import BatchMetadata, ProducerStateEntry
from ottla.storage.snapshots import read_snapshot, write_snapshot
from ottla.storage.transaction_index import AbortedTransaction, TransactionIndex, read_aborted
from ottla.testing.memory_files import MemoryFiles

INT64 = st.integers(0, (1 << 63) - 1)
INT32 = st.integers(0, (1 << 31) - 1)
INT16 = st.integers(0, (1 << 15) - 1)


def fields(producer: ProducerStateEntry) -> tuple[object, ...]:
    return (
        producer.producer_id,
        producer.epoch,
        producer.coordinator_epoch,
        producer.last_timestamp,
        producer.transaction_offset,
        producer.batches,
    )


def test_the_bytes_are_those_of_kafkas_version_1() -> None:
    producer = ProducerStateEntry(
        7,
        epoch=2,
        coordinator_epoch=-1,
        last_timestamp=1000,
        batches=[BatchMetadata(5, 41, 1, 1000)],
    )
    data = write_snapshot([producer])
    body = struct.pack(">iqhiqiqiq", 1, 7, 2, 5, 41, 1, 1000, -1, -1)
    assert data == struct.pack(">hI", 1, crc32c(body)) + body


def test_a_producer_without_batches() -> None:
    data = write_snapshot([ProducerStateEntry(7, epoch=2, coordinator_epoch=3, last_timestamp=9)])
    assert struct.unpack_from(">qhiqiqiq", data, 10) == (7, 2, -1, -1, 0, 9, 3, -1)
    (again,) = read_snapshot(data)
    assert again.batches == []


@given(
    st.lists(
        st.builds(
            lambda pid, epoch, seq, offset, delta, time, coordinator, open_at: ProducerStateEntry(
                pid,
                epoch=epoch,
                coordinator_epoch=coordinator,
                last_timestamp=time,
                transaction_offset=open_at,
                batches=[BatchMetadata(seq, offset, delta, time)],
            ),
            INT64, INT16, INT32, INT64, INT32, INT64, INT32, st.integers(-1, 1 << 40),
        ),
        max_size=5,
    )
)  # fmt: skip
def test_snapshots_round_trip(producers: list[ProducerStateEntry]) -> None:
    again = read_snapshot(write_snapshot(producers))
    assert [fields(producer) for producer in again] == [fields(item) for item in producers]


@given(st.data())
def test_a_flipped_byte_or_a_missing_end_is_noticed(data: st.DataObject) -> None:
    whole = write_snapshot(
        [ProducerStateEntry(7, epoch=2, batches=[BatchMetadata(5, 41, 1, 1000)])]
    )
    position = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytearray(whole)
    flipped[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedError):
        read_snapshot(bytes(flipped))
    with pytest.raises(DamagedError):
        read_snapshot(whole[:position])


def test_transaction_index_bytes() -> None:
    files = MemoryFiles()
    files.make_dir("/d")
    index = TransactionIndex(files, "/d/x", 0)
    assert "/d/x" not in files.nodes
    index.append(AbortedTransaction(7, 10, 13, 11))
    assert bytes(files.nodes["/d/x"].data) == struct.pack(">hqqqq", 0, 7, 10, 13, 11)
    again = TransactionIndex(files, "/d/x", 34)
    assert again.all() == [AbortedTransaction(7, 10, 13, 11)]


def test_collect_gives_what_overlaps_and_stops_at_the_stable_offset() -> None:
    files = MemoryFiles()
    files.make_dir("/d")
    index = TransactionIndex(files, "/d/x", 0)
    early = AbortedTransaction(1, 0, 5, 6)
    middle = AbortedTransaction(2, 7, 20, 21)
    late = AbortedTransaction(3, 25, 30, 31)
    for aborted in (early, middle, late):
        index.append(aborted)
    found: list[AbortedTransaction] = []
    assert index.collect(6, 15, found)
    assert found == [middle]
    found = []
    assert not index.collect(0, 100, found)
    assert found == [early, middle, late]


def test_truncating_a_transaction_index() -> None:
    files = MemoryFiles()
    files.make_dir("/d")
    index = TransactionIndex(files, "/d/x", 0)
    index.append(AbortedTransaction(1, 0, 5, 6))
    index.append(AbortedTransaction(2, 7, 20, 21))
    index.truncate(20)
    assert index.all() == [AbortedTransaction(1, 0, 5, 6)]
    assert len(files.nodes["/d/x"].data) == 34
    index.truncate(0)
    index.append(AbortedTransaction(9, 1, 2, 3))
    assert TransactionIndex(files, "/d/x", 34).all() == [AbortedTransaction(9, 1, 2, 3)]


@pytest.mark.parametrize("data", [b"x", b"\0" * 33, struct.pack(">hqqqq", 5, 1, 1, 1, 1)])
def test_malformed_transaction_indexes_are_refused(data: bytes) -> None:
    with pytest.raises(DamagedError):
        read_aborted(data)
