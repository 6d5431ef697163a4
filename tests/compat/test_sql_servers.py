"""SQL servers as processes: when one is killed, another takes over."""

from __future__ import annotations

import json
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat_sql import SqlServer

from ottla.client import Consumer, Producer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1000)]

PATIENCE_S = 150.0
STATEMENTS = """
CREATE STREAM numbers (id STRING KEY, v INT)
  WITH (KAFKA_TOPIC='killed_numbers', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE STREAM copies WITH (KAFKA_TOPIC='killed_copies') AS SELECT id, v FROM numbers;
CREATE TABLE sums WITH (KAFKA_TOPIC='killed_sums') AS
  SELECT id, COUNT(*) AS n, SUM(v) AS s FROM numbers GROUP BY id;
"""


@pytest.fixture
def servers(bootstrap: str, tmp_path: Path) -> Iterator[list[SqlServer]]:
    """Two of one service, with one state directory."""
    made = [SqlServer(bootstrap, tmp_path, "killed_") for _ in range(2)]
    yield made
    for entry in made:
        entry.close()


def asked(server: SqlServer, path: str, **fields: Any) -> Any:
    body = json.dumps(fields).encode()
    request = urllib.request.Request(f"{server.url}{path}", body)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return [json.loads(line) for line in answer.read().splitlines()]


def states(server: SqlServer) -> set[str]:
    ((shown,),) = asked(server, "/ksql", ksql="SHOW QUERIES;")
    return {service["state"] for service in shown["queries"]}


def sums(server: SqlServer) -> list[Any]:
    return sorted(asked(server, "/query-stream", sql="SELECT id, n, s FROM sums;")[1:])


def until(server: SqlServer, found: Callable[[], Any], wanted: Any) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (there := found()) != wanted:
        assert time.monotonic() < deadline, f"{there}, and not {wanted}\n{server.tail()}"
        time.sleep(0.25)


class Numbers:
    """Sends numbers from 0 on, and knows the expected results."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.sent = 0

    def send(self, count: int) -> None:
        with Producer(self._bootstrap) as producer:
            for n in range(self.sent, self.sent + count):
                key = f"k{n % 3}".encode()
                producer.send("killed_numbers", json.dumps({"v": n}).encode(), key=key)
        self.sent += count

    def sums(self) -> list[Any]:
        by_key = [range(k, self.sent, 3) for k in range(3)]
        return [[f"k{k}", len(entry), sum(entry)] for k, entry in enumerate(by_key)]

    def copies(self) -> Counter[int]:
        """How often each number is in the copy."""
        found: Counter[int] = Counter()
        with Consumer(
            self._bootstrap,
            "killed_copies",
            auto_offset_reset="earliest",
            settings={"isolation.level": "read_committed"},
        ) as consumer:
            while (record := consumer.poll(2.0)) is not None:
                found[json.loads(record.value or b"")["V"]] += 1
        return found


def test_queries_continue_whichever_server_is_killed(
    bootstrap: str, servers: list[SqlServer]
) -> None:
    first, second = servers
    numbers = Numbers(bootstrap)
    first.start()
    asked(first, "/ksql", ksql=STATEMENTS, streamsProperties={"auto.offset.reset": "earliest"})
    numbers.send(60)
    until(first, lambda: sums(first), numbers.sums())
    second.start()
    until(second, lambda: states(second), {"STANDBY"})
    assert sums(second) == numbers.sums(), "the standby server answers"
    # Kills the first during its work: the lease and the queries move.
    numbers.send(60)
    first.kill()
    numbers.send(60)
    until(second, lambda: sums(second), numbers.sums())
    until(second, lambda: states(second), {"RUNNING"})
    # Kills only Spark of the second: it is restarted.
    numbers.send(60)
    second.kill_spark()
    numbers.send(60)
    until(second, lambda: sums(second), numbers.sums())
    once = Counter(range(numbers.sent))
    until(second, lambda: numbers.copies() == once, True)
    assert second.stop() == 0, second.tail()
