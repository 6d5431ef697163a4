"""Sequences, epochs and transactions of producers (KIP-98)."""

from __future__ import annotations

import pytest
from storage_kit import NOW, batch

from ottla.errors import ErrorCode, KafkaError
from ottla.records.batch import AppendOrigin, BatchHeader, read_header
from ottla.records.control import Marker
from ottla.storage.producers import BATCHES_MAX, BatchMetadata, PartitionProducers


def header(
    sequence: int,
    *,
    count: int = 1,
    producer: int = 7,
    epoch: int = 0,
    offset: int = 0,
    transactional: bool = False,
) -> BatchHeader:
    data = batch(
        *[b"v"] * count,
        producer_id=producer,
        producer_epoch=epoch,
        base_sequence=sequence,
        base_offset=offset,
        transactional=transactional,
    )
    return read_header(data)


def take(producers: PartitionProducers, found: BatchHeader) -> BatchMetadata | None:
    repeated = producers.check(found, AppendOrigin.CLIENT)
    if repeated is None:
        producers.update(found)
    return repeated


def refusal(
    producers: PartitionProducers, found: BatchHeader, origin: AppendOrigin = AppendOrigin.CLIENT
) -> ErrorCode:
    with pytest.raises(KafkaError) as error:
        producers.check(found, origin)
    return error.value.code


def test_sequences_follow_one_another() -> None:
    producers = PartitionProducers()
    take(producers, header(0, count=3, offset=0))
    take(producers, header(3, offset=3))
    assert producers.get(7).last_sequence == 3
    assert refusal(producers, header(5)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refusal(producers, header(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repeated_batch_gets_its_first_offset() -> None:
    producers = PartitionProducers()
    for index in range(BATCHES_MAX):
        take(producers, header(index * 2, count=2, offset=100 + index * 2))
    for index in range(BATCHES_MAX):
        repeated = take(producers, header(index * 2, count=2))
        assert repeated is not None
        assert (repeated.first_offset, repeated.last_offset) == (100 + index * 2, 101 + index * 2)


def test_only_the_last_five_batches_are_remembered() -> None:
    producers = PartitionProducers()
    for index in range(BATCHES_MAX + 1):
        take(producers, header(index, offset=index))
    assert refusal(producers, header(0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_repetition_must_have_the_same_range() -> None:
    producers = PartitionProducers()
    take(producers, header(0, count=3))
    assert refusal(producers, header(0, count=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_sequences_wrap_to_zero_after_the_maximum() -> None:
    producers = PartitionProducers()
    take(producers, header(0x7FFFFFFF - 1, count=2, offset=0))
    take(producers, header(0, offset=2))
    assert producers.get(7).last_sequence == 0


def test_a_batch_may_span_the_wrap_of_sequences() -> None:
    producers = PartitionProducers()
    take(producers, header(0x7FFFFFFF, count=3, offset=0))
    assert producers.get(7).last_sequence == 1
    take(producers, header(2, offset=3))
    repeated = take(producers, header(0x7FFFFFFF, count=3))
    assert repeated is not None
    assert repeated.first_offset == 0


def test_an_unknown_producer_may_start_anywhere() -> None:
    producers = PartitionProducers()
    assert take(producers, header(41, offset=9)) is None
    assert producers.get(7).last_sequence == 41


def test_an_older_epoch_is_fenced() -> None:
    producers = PartitionProducers()
    take(producers, header(0, epoch=3))
    assert refusal(producers, header(1, epoch=2)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        refusal(producers, header(1, epoch=2), AppendOrigin.COORDINATOR)
        is ErrorCode.INVALID_PRODUCER_EPOCH
    )


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    producers = PartitionProducers()
    take(producers, header(5, epoch=0))
    assert refusal(producers, header(6, epoch=1)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert take(producers, header(0, epoch=1)) is None
    assert producers.get(7).epoch == 1


def test_the_coordinator_writes_without_sequences() -> None:
    producers = PartitionProducers()
    first = header(-1, transactional=True)
    assert producers.check(first, AppendOrigin.COORDINATOR) is None
    producers.update(first)
    assert producers.check(header(-1, transactional=True), AppendOrigin.COORDINATOR) is None
    assert producers.get(7).last_sequence == -1


def test_a_transaction_opens_with_its_first_record_and_ends_with_a_marker() -> None:
    producers = PartitionProducers()
    take(producers, header(0, offset=10, transactional=True))
    take(producers, header(0, offset=11, producer=8, transactional=True))
    take(producers, header(1, offset=12, transactional=True))
    assert producers.first_open_offset == 10
    completed = producers.end_transaction(header(-1, offset=13), Marker(True, 0))
    assert completed == (7, 10, 13, False)
    assert producers.first_open_offset == 11
    assert producers.first_unstable_offset(13) == 10
    assert producers.first_unstable_offset(14) == 11
    producers.end_transaction(header(-1, offset=14, producer=8), Marker(False, 0))
    assert producers.first_open_offset is None
    assert producers.first_unstable_offset(15) is None


def test_a_marker_for_nothing_completes_nothing() -> None:
    producers = PartitionProducers()
    assert producers.end_transaction(header(-1, offset=3), Marker(False, 0)) is None


def test_records_outside_the_open_transaction_are_refused() -> None:
    producers = PartitionProducers()
    take(producers, header(0, transactional=True))
    assert refusal(producers, header(1)) is ErrorCode.INVALID_TXN_STATE


def test_a_marker_of_a_replaced_coordinator_is_refused() -> None:
    producers = PartitionProducers()
    take(producers, header(0, transactional=True))
    producers.end_transaction(header(-1, offset=1), Marker(True, 5))
    producers.check_marker(header(-1), Marker(True, 5))
    with pytest.raises(KafkaError) as error:
        producers.check_marker(header(-1), Marker(True, 4))
    assert error.value.code is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_silent_producers_expire_but_not_with_an_open_transaction() -> None:
    producers = PartitionProducers()
    take(producers, header(0, producer=1))
    take(producers, header(0, producer=2, offset=1, transactional=True))
    assert producers.expire(NOW + 999, 1000) == 0
    assert producers.expire(NOW + 1000, 1000) == 1
    assert [producer.producer_id for producer in producers] == [2]
