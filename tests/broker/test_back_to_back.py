"""Transactions without a pause between them, on three processes: no producer is fenced.

The markers of a transaction travel to the leaders of its partitions while the producer, which has
the answer to its EndTxn and the next epoch, goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from back_to_back import PATIENCE_S, BackToBack

from ottla.client import TopicPartition
from ottla.errors import ErrorCode
from ottla.testing import LocalCluster

pytestmark = [pytest.mark.zookeeper, pytest.mark.timeout(300)]

PARTITIONS = 6
PRODUCERS = 8
ROUNDS = 20
WAITED = ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Leaders do not retry: the client sees the errors of writes that precede the markers."""
    config = {"add.partitions.to.txn.retry.backoff.max.ms": "0"}
    with LocalCluster(brokers=3, process=True, config=config) as cluster:
        yield cluster


def read_committed(cluster: LocalCluster, topic: str, count: int) -> list[str]:
    consumer = cluster.consumer(value=str, settings={"isolation.level": "read_committed"})
    consumer.assign({TopicPartition(topic, index): 0 for index in range(PARTITIONS)})
    return sorted(record.value for record in consumer.take(count, PATIENCE_S))


def test_abort_after_commit_waits_for_the_markers(cluster: LocalCluster) -> None:
    """EndTxn v5 with the epoch of the previous EndTxn v5, and nothing in between."""
    cluster.create_topic("ends", PARTITIONS)
    producer = BackToBack(cluster.port, "ends", "x")
    assert set(producer.leaders.values()) == {0, 1, 2}
    kept: list[str] = []
    waited = 0
    for _ in range(ROUNDS):
        kept += producer.produce()
        assert producer.end(commit=True) == [ErrorCode.NONE]
        waited += WAITED in producer.end(commit=False)
    producer.close()
    assert waited  # otherwise the test proves nothing
    assert set(producer.codes["EndTxn"]) == {ErrorCode.NONE, WAITED}
    assert read_committed(cluster, "ends", len(kept)) == sorted(kept)


def one_after_the_other(port: int, number: int) -> tuple[Counter[ErrorCode], list[str]]:
    producer = BackToBack(port, "writes", f"x-{number}")
    kept: list[str] = []
    for turn in range(ROUNDS):
        values = producer.produce()
        commit = turn % 3 != 2
        producer.end(commit=commit)
        kept += values if commit else []
    producer.close()
    return producer.codes["Produce"], kept


def test_the_next_transaction_writes_while_the_markers_of_the_last_one_travel(
    cluster: LocalCluster,
) -> None:
    """With several producers leaders wait for coordinators: markers overtake responses."""
    cluster.create_topic("writes", PARTITIONS)
    with ThreadPoolExecutor(PRODUCERS) as pool:
        runs = pool.map(partial(one_after_the_other, cluster.port), range(PRODUCERS))
        codes: Counter[ErrorCode] = Counter()
        kept: list[str] = []
        for result, values in runs:
            codes += result
            kept += values
    assert codes[WAITED]  # otherwise no write preceded the markers
    assert set(codes) == {ErrorCode.NONE, WAITED}
    assert read_committed(cluster, "writes", len(kept)) == sorted(kept)
