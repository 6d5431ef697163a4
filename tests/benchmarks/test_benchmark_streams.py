"""The load of the row `streams` counts a job's results, whatever runs the job."""

from __future__ import annotations

import json

import pytest
from benchmarks.orders import KEYS, PARTITIONS, Orders, long_count

from benchmarks import orders, processes
from ottla.testing import LocalCluster


def test_orders_have_keys_of_the_table_of_customers(kafka: LocalCluster) -> None:
    load = Orders(kafka.bootstrap_servers)
    load.send(3)
    load.close()
    customers = kafka.consumer("customers").take(KEYS)
    assert {customer.key for customer in customers} == {b"key-%d" % n for n in range(KEYS)}
    sent = kafka.consumer("orders").take(3)
    assert {record.key for record in sent} == {b"key-0", b"key-1", b"key-2"}
    assert sorted(json.loads(record.value or b"")["v"] for record in sent) == [0, 1, 2]
    places = {customer.key: customer.partition for customer in customers}
    assert all(places[record.key] == record.partition for record in sent)


def test_results_are_waited_for_one_by_one(kafka: LocalCluster) -> None:
    load = Orders(kafka.bootstrap_servers)
    with kafka.producer() as producer:
        for number in range(5):
            producer.send("results", b"x", partition=number % PARTITIONS)
    load.wait(3)
    load.wait(2)
    with pytest.raises(processes.ToolError, match="0 of 1 results"):
        load.wait(1, lambda: False)
    load.close()


def test_counts_of_windows_are_waited_for_by_what_they_add(kafka: LocalCluster) -> None:
    load = Orders(kafka.bootstrap_servers, count_of=long_count)
    with kafka.producer() as producer:
        for key, count in ((b"a", 3), (b"b", 1), (b"a", 7)):
            producer.send("results", count.to_bytes(8, "big"), key=key, partition=0)
    load.wait(8)
    load.close()


def test_missing_results_are_an_error(kafka: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "RESULT_S_MAX", 0.1)
    load = Orders(kafka.bootstrap_servers)
    with pytest.raises(processes.ToolError, match="0 of 1 results"):
        load.wait(1)
    load.close()
