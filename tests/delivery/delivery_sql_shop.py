"""A shop: what its topics get while SQL queries run and die, and what must be true of the results.

Between them the queries have a stateless stage, Spark's own aggregation (in half of the runs two
aggregates that share a Spark query), and on tasks a stream-table join behind a repartition topic
and a stream-stream join. Payments come later than their orders, so that joins need their state.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from delivery_connect_subjects import AT_ONCE_MAX, log_of
from delivery_log import Batch, Record, committed, open_producers

from ottla.client import Producer

PARTITIONS = 3
INPUTS = ("orders", "payments", "customers")
ORDERED = ("orders", "copied")
COUNTED = {"counts": "CUSTOMER"}
COUNTED_TOGETHER = {**COUNTED, "items": "ITEM"}
CUSTOMERS = 5
ITEMS = 4
UNPAID_MAX = 60
RENAMED = 0.2
STATEMENTS = """
CREATE STREAM orders (id STRING KEY, customer STRING, item STRING)
    WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM payments (id STRING KEY, amount INT)
    WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
CREATE TABLE customers (customer STRING PRIMARY KEY, version INT)
    WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE STREAM copied WITH (KAFKA_TOPIC='copied') AS
    SELECT id, customer FROM orders;
CREATE STREAM named WITH (KAFKA_TOPIC='named') AS
    SELECT o.customer, o.id AS id, version FROM orders o
    JOIN customers c ON o.customer = c.customer;
CREATE STREAM paid WITH (KAFKA_TOPIC='paid') AS
    SELECT o.id, amount FROM orders o JOIN payments p WITHIN 1 HOUR ON o.id = p.id;
CREATE TABLE counts WITH (KAFKA_TOPIC='counts') AS
    SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;
"""
# Next to the other aggregate, so that they start together.
TOGETHER = """
CREATE TABLE items WITH (KAFKA_TOPIC='items') AS
    SELECT item, COUNT(*) AS n FROM orders GROUP BY item;
"""

Row = dict[str, Any]


class Shop:
    """A Subject, as those of delivery_connect_subjects.py."""

    sink = False
    grows = True
    partitions = PARTITIONS

    def __init__(self, servers: str, *, together: bool) -> None:
        self.count = 0
        self.statements = STATEMENTS + (TOGETHER if together else "")
        self.counted = COUNTED_TOGETHER if together else COUNTED
        self.outputs = ("copied", "named", "paid", *self.counted)
        self._servers = servers
        self._producer = Producer(servers, key=str, value=json.dumps)
        self._lock = threading.Lock()
        self._unpaid: deque[int] = deque()
        self._versions: Counter[str] = Counter()
        self._logs: dict[tuple[str, int], list[Batch]] = {}

    def config(self) -> dict[str, str]:
        return {}

    def open(self) -> None:
        """Each customer is there before the first order."""
        for number in range(CUSTOMERS):
            self._rename(number)
        self._producer.flush()

    def grow(self, chance: random.Random) -> None:
        with self._lock:
            for _ in range(chance.randrange(1, AT_ONCE_MAX)):
                customer, item = chance.randrange(CUSTOMERS), chance.randrange(ITEMS)
                order = {"CUSTOMER": f"c{customer}", "ITEM": f"i{item}"}
                self._producer.send("orders", order, key=str(self.count))
                self._unpaid.append(self.count)
                self.count += 1
            self._pay(down_to=chance.randrange(UNPAID_MAX))
            if chance.random() < RENAMED:
                self._rename(chance.randrange(CUSTOMERS))

    def _pay(self, *, down_to: int) -> None:
        while len(self._unpaid) > down_to:
            order = self._unpaid.popleft()
            self._producer.send("payments", {"AMOUNT": order}, key=str(order))

    def _rename(self, number: int) -> None:
        customer = f"c{number}"
        self._versions[customer] += 1
        self._producer.send("customers", {"VERSION": self._versions[customer]}, key=customer)

    def close(self) -> None:
        """Before the last check all orders are paid."""
        with self._lock:
            self._pay(down_to=0)
        self._producer.flush()

    def watch(self) -> None:
        pass

    def found(self) -> int:
        """The number of orders that have passed through all queries."""
        ids = [
            {row["ID"] for _, row in self._rows("named")},
            *({key for key, _ in self._rows(topic)} for topic in ("copied", "paid")),
        ]
        counts = (dict(self._rows(topic)) for topic in self.counted)
        counted = [sum(row["N"] for row in rows.values()) for rows in counts]
        return min(*map(len, ids), *counted)

    def arrived(self) -> int:
        return self.found()

    def wrong(self) -> list[str]:
        self._logs.clear()
        orders = dict(self._rows("orders"))
        named, paid = list(self._rows("named")), list(self._rows("paid"))
        wrong = wrong_ids("named", [row["ID"] for _, row in named], orders)
        wrong += wrong_ids("paid", [key for key, _ in paid], orders)
        wrong += [f"paid: {key}: {row}" for key, row in paid if row != {"AMOUNT": int(key)}]
        wrong += self._wrong_copies(orders)
        wrong += self._wrong_versions(named, orders)
        for topic, column in self.counted.items():
            wrong += self._wrong_counts(topic, Counter(row[column] for row in orders.values()))
        return wrong + [
            f"{topic}: a transaction is open in {partition}"
            for topic in self.outputs
            for partition in range(PARTITIONS)
            for _ in open_producers(self._log(topic, partition))
        ]

    def _wrong_copies(self, orders: Mapping[str, Row]) -> Iterator[str]:
        yield from wrong_ids("copied", [key for key, _ in self._rows("copied")], orders)
        for partition in range(PARTITIONS):
            keys = [[record.key for record in self._records(t, partition)] for t in ORDERED]
            if keys[0] != keys[1]:
                yield f"copied: partition {partition} is not as that of the orders"

    def _wrong_versions(
        self, named: Sequence[tuple[str, Row]], orders: Mapping[str, Row]
    ) -> Iterator[str]:
        """A join with a table that has forgotten something shows an older version."""
        last: Counter[str] = Counter()
        for customer, row in named:
            if orders.get(row["ID"], {}).get("CUSTOMER") != customer:
                yield f"named: {row} has the customer {customer}"
            if not last[customer] <= row["VERSION"] <= self._versions[customer]:
                yield f"named: {customer}: version {row['VERSION']} after {last[customer]}"
            last[customer] = row["VERSION"]

    def _wrong_counts(self, topic: str, expected: Counter[str]) -> Iterator[str]:
        """Counts grow with each update, and the last is what was sent."""
        last: Counter[str] = Counter()
        for key, row in self._rows(topic):
            if row["N"] <= last[key]:
                yield f"{topic}: {key} is {row['N']} after {last[key]}"
            last[key] = row["N"]
        yield from (
            f"{topic}: {key} is {last[key]} at the end, and {expected[key]} were sent"
            for key in sorted(last | expected)
            if last[key] != expected[key]
        )

    def _rows(self, topic: str) -> Iterator[tuple[str, Row]]:
        for partition in range(PARTITIONS):
            for record in self._records(topic, partition):
                yield (record.key or b"").decode(), json.loads(record.value or b"{}")

    def _records(self, topic: str, partition: int) -> list[Record]:
        return committed(self._log(topic, partition))

    def _log(self, topic: str, partition: int) -> list[Batch]:
        known = self._logs.get((topic, partition), ())
        found = log_of(self._servers, partition, topic, known)
        self._logs[topic, partition] = found
        return found


def wrong_ids(topic: str, found: Sequence[str], expected: Mapping[str, object]) -> list[str]:
    counts = Counter(found)
    wrong = [f"{topic}: {id_} is there {n} times" for id_, n in counts.items() if n > 1]
    wrong += [f"{topic}: {id_} is missing" for id_ in expected if id_ not in counts]
    return wrong + [f"{topic}: {id_} was never sent" for id_ in counts if id_ not in expected]
