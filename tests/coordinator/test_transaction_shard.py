"""Details of a shard of transactional ids that transcripts do not show."""

from __future__ import annotations

from ottla.coordinator.transactions.records import write_key, write_value
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionCoordinatorShard
from ottla.coordinator.transactions.transaction import TransactionMetadata
from ottla.errors import ErrorCode
from ottla.records.record import Record

CONFIG = TransactionConfig(id_expiration_ms=100, expiration_interval_ms=100)


def many(count: int) -> TransactionCoordinatorShard:
    """A shard of ids unused since time 0."""
    shard = TransactionCoordinatorShard(0, coordinator_epoch=0, config=CONFIG, ids=lambda: 1)
    value = write_value(TransactionMetadata(1, 0, 60_000, update_ms=0))
    shard.load(Record(key=write_key(f"x{number}"), value=value) for number in range(count))
    shard.loaded(0)
    return shard


def test_simultaneous_expirations_are_processed_in_portions() -> None:
    shard = many(2_500)
    counts = []
    while shard.transactions:
        assert shard.next_deadline_ms() == 100
        counts.append(len(shard.expire(100).records))
    assert counts == [1_000, 1_000, 500]


def test_a_failed_portion_is_retried_later() -> None:
    shard = many(2_500)
    outcome = shard.expire(100)
    assert not shard.failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=100)
    assert len(shard.transactions) == 2_500
    assert not shard.expire(199).records
    assert shard.next_deadline_ms() == 200
    assert len(shard.expire(200).records) == 1_000
