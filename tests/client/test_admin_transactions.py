"""Admin's transactions, and the groups that librdkafka's admin client does not know."""

from __future__ import annotations

import uuid

import pytest

from ottla.client import Admin, ErrorCode, KafkaError, Producer, TopicPartition
from ottla.client.admin_session import AdminSession
from ottla.client.protocol.coordinators import KeyType, coordinators_of
from ottla.client.protocol.retries import with_retries
from ottla.client.transactions import (
    ActiveProducer,
    TransactionAdmin,
    TransactionDescription,
    TransactionListing,
)

NOW_MS = 1_800_000_000_000


def test_a_transactions_state_is_described(bootstrap: str, admin: Admin, topic: str) -> None:
    name = f"tx-{uuid.uuid4().hex[:12]}"
    partition = TopicPartition(topic, 0)
    with (
        Producer(bootstrap, delivery="exactly_once", transactional_id=name) as producer,
        producer.transaction(),
    ):
        producer.send(topic, b"x").result()
        found = admin.transactions.describe(name, "nobody")
        described = found[name]
        assert isinstance(described, TransactionDescription)
        assert (described.state, described.partitions) == ("Ongoing", (partition,))
        nobody = found["nobody"]
        assert isinstance(nobody, KafkaError)
        assert nobody.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        (listed,) = admin.transactions.list(producer_ids=[described.producer_id])
        assert listed == TransactionListing(name, 0, described.producer_id, "Ongoing")
        assert admin.transactions.list(states=["Ongoing"], pattern=name) == [listed]
        active = admin.transactions.producers([partition, TopicPartition(topic, 7)])
        (mine,) = active[partition]  # type: ignore[misc]
        assert isinstance(mine, ActiveProducer)
        assert (mine.producer_id, mine.start_offset) == (described.producer_id, 0)
        assert isinstance(active[TopicPartition(topic, 7)], KafkaError)


class FakeTransactionAdmin(TransactionAdmin):
    """A fake cluster with given transactions."""

    def __init__(self, start_offset: int | None, state: str | None) -> None:
        self.producer = ActiveProducer(5, 0, 3, NOW_MS - 60_000, 0, start_offset)
        self.state = state
        self.partition = TopicPartition("t", 0)

    def producers(self, partitions: object, *, broker_id: int | None = None) -> object:  # type: ignore[override]
        return {self.partition: [self.producer]}

    def list(self, **filters: object) -> object:  # type: ignore[override]
        return [] if self.state is None else [TransactionListing("tx", 0, 5, self.state)]

    def describe(self, *names: str) -> object:  # type: ignore[override]
        in_it = (self.partition,) if self.state == "Ongoing" else ()
        return {
            name: TransactionDescription(name, 0, self.state or "", 5, 0, 1, 1, in_it)
            for name in names
        }


@pytest.mark.parametrize(
    ("start_offset", "state", "older_than_ms", "hangs"),
    [
        (7, None, 1000, True),  # the producer is unknown to the coordinator
        (7, "CompleteAbort", 1000, True),  # known, and the transaction has ended
        (7, "Ongoing", 1000, False),  # the coordinator will end it
        (7, None, 100_000, False),  # too recent to decide
        (None, None, 1000, False),  # nothing is open
    ],
)
def test_hanging_transactions_are_found(
    start_offset: int | None, state: str | None, older_than_ms: int, hangs: bool
) -> None:
    admin = FakeTransactionAdmin(start_offset, state)
    found = admin.hanging([admin.partition], older_than_ms=older_than_ms, now_ms=NOW_MS)
    assert [entry.partition for entry in found] == ([admin.partition] if hangs else [])


def test_permanent_errors_end_the_retries() -> None:
    answers = [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.GROUP_ID_NOT_FOUND]

    def attempt() -> None:
        raise KafkaError(answers.pop(0))

    with pytest.raises(KafkaError) as caught:
        with_retries(5.0, attempt)
    assert caught.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    answers.append(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(KafkaError) as caught:
        with_retries(0.0, attempt)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_coordinators(bootstrap: str) -> None:
    session = AdminSession(bootstrap, {}, 10.0)
    assert coordinators_of(session, KeyType.GROUP, ["a", "b", "a"]) == {"a": 0, "b": 0}
    assert coordinators_of(session, KeyType.TRANSACTION, []) == {}
    session.close()
