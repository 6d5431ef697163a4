"""What a shard of transactional ids does with numbers that transcripts do not show."""

from __future__ import annotations

from ottla.coordinator.transactions.keys import write_key, write_value
from ottla.coordinator.transactions.shard import TransactionConfig, TransactionShard
from ottla.coordinator.transactions.transaction import Transaction
from ottla.errors import ErrorCode
from ottla.records.record import Record

CONFIG = TransactionConfig(id_expiration_ms=100, expiration_interval_ms=100)


def many(count: int) -> TransactionShard:
    """A shard of ids that nobody has used since time 0."""
    shard = TransactionShard(0, coordinator_epoch=0, config=CONFIG, ids=lambda: 1)
    value = write_value(Transaction(1, 0, 60_000, update_ms=0))
    shard.load(Record(key=write_key(f"x{number}"), value=value) for number in range(count))
    shard.loaded(0)
    return shard


def test_what_expires_at_once_is_forgotten_in_portions() -> None:
    shard = many(2_500)
    counts = []
    while shard.transactions:
        assert shard.next_deadline_ms() == 100
        counts.append(len(shard.expire(100).records))
    assert counts == [1_000, 1_000, 500]


def test_a_portion_that_cannot_be_stored_is_not_tried_at_once() -> None:
    shard = many(2_500)
    outcome = shard.expire(100)
    assert not shard.failed(outcome, ErrorCode.KAFKA_STORAGE_ERROR, now_ms=100)
    assert len(shard.transactions) == 2_500
    assert not shard.expire(199).records
    assert shard.next_deadline_ms() == 200
    assert len(shard.expire(200).records) == 1_000
