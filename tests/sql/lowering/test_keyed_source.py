"""Records give the same results on the short and the long path into a join, in batches and
one by one."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.engine.failures import FailureKind, log_and_continue
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import BATCH_MIN
from ottla.engine.task_plan import TaskPlan
from ottla.sql import SqlTestDriver
from ottla.sql.lowering import build_graph, joins

SOURCES = """
CREATE STREAM orders (id STRING KEY, v INT, item STRING)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE customers (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE STREAM payments (id STRING KEY, paid INT)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
"""
TABLE = """CREATE STREAM results AS SELECT o.id, o.v + 1 AS v, c.name AS name, o.ROWTIME AS moment,
  o.ROWOFFSET AS place FROM orders o LEFT JOIN customers c ON o.id = c.id WHERE o.v > 1;"""
STREAM = """CREATE STREAM results AS SELECT ROWKEY, o.v AS v, p.paid AS paid
  FROM orders o FULL JOIN payments p WITHIN 1 SECOND GRACE PERIOD 1 SECOND ON o.id = p.id;"""


def rows(topic: str, count: int) -> list[InputRow]:
    """With keys, values and both missing, and one that can't be read."""
    values = {"orders": b'{"v":%d,"item":"x"}', "customers": b'{"name":"c%d"}'}
    found = []
    for n in range(count):
        value: bytes | None = values.get(topic, b'{"paid":%d}') % n
        key: bytes | None = b"key-%d" % (n % 7)
        if n % 11 == 5:
            value = None
        if n % 13 == 6:
            key = None
        if n == 40:
            value = b"not JSON"
        found.append(InputRow(topic, 0, n, 1_000 + 100 * n, key, value))
    return found


def results(statement: str, *, batch: int, short: bool, monkeypatch: Any) -> list[OutputRow]:
    with monkeypatch.context() as patched, SqlTestDriver() as driver:
        if not short:
            patched.setattr(joins, "can_key", lambda layout: False)
        driver.execute(SOURCES + statement)
        (plan,) = driver.engine.state.plans.values()
        (piece,) = subtopologies(build_graph(plan))
        handlers = {FailureKind.DESERIALIZATION: log_and_continue}
        made = TaskPlan(piece, "app", 1, "nobody:1", caching=False, on_failure=handlers)
        task = made.task(0)
        topics = {topic for source in piece.sources for topic in source.topics}
        given = task.in_order([row for topic in sorted(topics) for row in rows(topic, 120)])
        found = []
        for start in range(0, len(given), batch):
            found += task.process(given[start : start + batch])
        return found


@pytest.mark.parametrize("statement", [TABLE, STREAM])
def test_both_implementations_agree(statement: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = results(statement, batch=1, short=False, monkeypatch=monkeypatch)
    assert len(expected) > BATCH_MIN
    for batch in (1, 1_000):
        assert results(statement, batch=batch, short=True, monkeypatch=monkeypatch) == expected
    assert results(statement, batch=1_000, short=False, monkeypatch=monkeypatch) == expected
