"""Graphs of plans: their subtopologies, and that they can be pickled for a worker."""

from __future__ import annotations

import pickle

import pytest

from ottla.engine.graph import Graph
from ottla.engine.subtopologies import subtopologies
from ottla.sql import SqlTestDriver
from ottla.sql.lowering import build_graph

SOURCES = """
CREATE STREAM orders (id INT KEY, item STRING, amount INT)
    WITH (KAFKA_TOPIC='orders', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE STREAM payments (id INT KEY, paid INT)
    WITH (KAFKA_TOPIC='payments', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE TABLE items (item STRING PRIMARY KEY, price INT)
    WITH (KAFKA_TOPIC='items', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
CREATE TABLE carts (id INT PRIMARY KEY, item STRING)
    WITH (KAFKA_TOPIC='carts', KEY_FORMAT='KAFKA', VALUE_FORMAT='JSON');
"""
QUERIES = {
    "project": "STREAM x AS SELECT id, EXPLODE(ARRAY[1, 2]) AS e FROM orders WHERE amount > 1",
    "aggregate": "TABLE x AS SELECT item, SUM(amount) AS s FROM orders GROUP BY item",
    "final": "TABLE x AS SELECT id, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 MINUTE)"
    " GROUP BY id EMIT FINAL",
    "sessions": "TABLE x AS SELECT id, COUNT(*) AS n FROM orders WINDOW SESSION (1 MINUTE)"
    " GROUP BY id HAVING COUNT(*) > 1",
    "streams": "STREAM x AS SELECT orders.id AS id, paid FROM orders LEFT JOIN payments"
    " WITHIN 1 MINUTE GRACE PERIOD 1 MINUTE ON orders.id = payments.id",
    "table": "STREAM x AS SELECT o.item AS item, price FROM orders o JOIN items i"
    " ON o.item = i.item",
    "foreign key": "TABLE x AS SELECT c.id AS id, price FROM carts c JOIN items i"
    " ON c.item = i.item",
    "changes": "TABLE x AS SELECT item, COUNT(*) AS n FROM carts GROUP BY item",
    "two joins": "STREAM x AS SELECT o.item AS item, price, paid FROM orders o"
    " JOIN payments p WITHIN 1 MINUTE ON o.id = p.id JOIN items i ON o.item = i.item",
}


def graph_of(query: str) -> Graph:
    with SqlTestDriver() as driver:
        driver.execute(f"{SOURCES}CREATE {query};")
        (plan,) = driver.engine.state.plans.values()
        return build_graph(plan)


@pytest.mark.parametrize("name", QUERIES)
def test_a_graph_survives_pickling(name: str) -> None:
    pieces = subtopologies(graph_of(QUERIES[name]))
    again = pickle.loads(pickle.dumps(pieces))
    assert [item.order for item in again] == [piece.order for piece in pieces]


@pytest.mark.parametrize(
    ("name", "pieces", "topics", "prefixes"),
    [
        ("project", 1, 0, 0),
        ("aggregate", 1, 0, 1),  # the new key goes through a shuffle, not through a topic
        ("sessions", 1, 0, 0),  # grouped by the key that it has
        ("streams", 1, 0, 0),
        ("table", 1, 0, 1),
        ("foreign key", 2, 2, 0),
        ("changes", 2, 1, 0),
        ("two joins", 2, 1, 0),
    ],
)
def test_a_graph_is_cut_into_subtopologies(
    name: str, pieces: int, topics: int, prefixes: int
) -> None:
    found = subtopologies(graph_of(QUERIES[name]))
    assert len(found) == pieces
    assert sum(len(piece.internal_topics) for piece in found) == topics
    assert sum(len(piece.prefixes) for piece in found) == prefixes
