"""Aggregates that start together share a Spark query, and leave it without losing rows."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from running_shop import WAIT_S, Shop, eventually

from ottla.queries.states import QueryStatus
from ottla.sql.run.admission import Admission
from ottla.sql.run.shared_query import copy_checkpoint

ORDERS = """CREATE STREAM orders (id STRING KEY, item STRING, amount INT)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=2);"""
COUNTS = "CREATE TABLE counts AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;"
SUMS = "CREATE TABLE sums AS SELECT item, SUM(amount) AS s FROM orders GROUP BY item;"
BIG = "CREATE TABLE big AS SELECT id, COUNT(*) AS n FROM orders WHERE amount > 2 GROUP BY id;"


def rows(first: int, last: int) -> list[tuple[str, dict[str, object], int]]:
    return [(f"k{n % 2}", {"item": "tea", "amount": n}, 1000 + n) for n in range(first, last)]


def last(shop: Shop, topic: str) -> dict[bytes, object]:
    return dict(shop.records(topic, 1, 1))


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_aggregates_share_separate_and_continue(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_there = threading.Event()
    monkeypatch.setattr(Admission, "_wait_a_moment", lambda self: all_there.wait(WAIT_S))
    shop.run(ORDERS)
    shop.insert("orders", *rows(0, 4))
    counts = shop.run(COUNTS, auto_offset_reset="earliest")
    sums = shop.run(SUMS, auto_offset_reset="earliest")
    big = shop.run(BIG)  # from here on: its own grouping set
    all_there.set()
    shop.insert("orders", *rows(4, 8))
    eventually(lambda: last(shop, "COUNTS") == {b"tea": {"N": 8}})
    eventually(lambda: last(shop, "SUMS") == {b"tea": {"S": 28}})
    eventually(lambda: last(shop, "BIG") == {b"k0": {"N": 2}, b"k1": {"N": 2}})
    assert shop.queries.spark_queries == 1
    # One pauses, and continues alone, with all that it had counted.
    shop.queries.pause(counts)
    shop.insert("orders", *rows(8, 10))
    eventually(lambda: last(shop, "SUMS") == {b"tea": {"S": 45}})
    eventually(lambda: last(shop, "COUNTS") == {b"tea": {"N": 8}})  # not 10: nothing is written
    shop.queries.resume(counts)
    eventually(lambda: last(shop, "COUNTS") == {b"tea": {"N": 10}})
    # A topic is deleted: only that query fails.
    with shop.cluster.admin() as admin:
        admin.topics.delete("BIG")
    shop.insert("orders", *rows(10, 11))
    eventually(lambda: last(shop, "SUMS") == {b"tea": {"S": 55}})
    eventually(lambda: shop.queries.state(big).state is QueryStatus.FAILED)
    assert "BIG" in shop.queries.state(big).cause
    assert shop.queries.state(sums).state is QueryStatus.RUNNING
    # In a new process shared queries stay shared and separate ones separate; one has ended.
    shop.queries.close()
    shop.insert("orders", *rows(11, 12))
    shop.forget(big)
    shop.reopen()
    shop.queries.discard(big)
    eventually(lambda: last(shop, "SUMS") == {b"tea": {"S": 66}})
    eventually(lambda: last(shop, "COUNTS") == {b"tea": {"N": 12}})
    assert not (shop.state_dir / "queries" / big).exists()
    shop.queries.stop(sums)
    shop.queries.stop(counts)
    assert list((shop.state_dir / "companies").iterdir()) == []
    assert list((shop.state_dir / "queries").iterdir()) == []


def test_a_copied_checkpoint_has_a_new_id_and_no_unfinished_batch(
    tmp_path: Path,
) -> None:
    source, target = tmp_path / "source", tmp_path / "home" / "checkpoint"
    for name in ("offsets/0", "offsets/.1.crc", "offsets/1", "commits/0", "state/0/0/1.delta"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("v1")
    (source / "metadata").write_text('{"id":"old"}')
    (source / ".metadata.crc").write_text("sum")
    copy_checkpoint(source, target)
    left = {str(e.relative_to(target)) for e in target.rglob("*") if e.is_file()}
    assert left == {"metadata", "offsets/0", "commits/0", "state/0/0/1.delta"}
    assert json.loads((target / "metadata").read_text())["id"] != "old"
    assert (source / "offsets" / "1").exists()
