"""What PyPI's ksqldb can do. usage: python checks.py http://host:port [name ...]

A program of its own, as this client closes none of its connections. Prints one TAP line for each
check; tests/compat/test_ksqldb_clients.py reads them.
"""

from __future__ import annotations

import asyncio
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

from ksqldb import KSQLdbClient

PATIENCE_S = 240.0
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}
PULL = "SELECT id, total FROM py_sums WHERE id = 'a';"

client = KSQLdbClient(sys.argv[1])
checks: dict[str, Callable[[], None]] = {}


def check(name: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(body: Callable[[], None]) -> Callable[[], None]:
        checks[name] = body
        return body

    return add


def until(query: str, row: list[Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := client.query_sync(query, timeout=PATIENCE_S)[1:]) != [row]:
        assert time.monotonic() < deadline, f"{query} gives {found}, not {row}"
        time.sleep(0.25)


@check("ksqldb for Python reads properties")
def properties() -> None:
    assert any(
        server_property["name"] == "ksql.service.id" for server_property in client.get_properties()
    )


@check("ksqldb for Python inserts and pulls")
def inserts() -> None:
    client.ksql(
        "CREATE STREAM py_orders (id STRING KEY, v INT)"
        " WITH (kafka_topic='py_orders', partitions=1, value_format='json');"
    )
    (made,) = client.ksql(
        "CREATE TABLE py_sums AS SELECT id, SUM(v) AS total FROM py_orders GROUP BY id;", EARLIEST
    )
    assert made["commandStatus"]["status"] == "SUCCESS"
    acks = client.inserts_stream("py_orders", [{"id": "a", "v": 1}, {"id": "a", "v": 2}])
    assert acks == [{"status": "ok", "seq": 0}, {"status": "ok", "seq": 1}]
    until(PULL, ["a", 3])


@check("ksqldb for Python follows a push query")
def push() -> None:
    async def rows() -> list[Any]:
        query = "SELECT id, v FROM py_orders EMIT CHANGES LIMIT 1;"
        return [row async for row in client.query_async(query, EARLIEST, timeout=PATIENCE_S)]

    header, row = asyncio.run(rows())
    assert header["columnNames"] == ["ID", "V"]
    assert row == ["a", 1]


@check("ksqldb for Python finds everything after a restart")
def restarted() -> None:
    until(PULL, ["a", 3])
    client.inserts_stream("py_orders", [{"id": "a", "v": 4}])
    until(PULL, ["a", 7])


def main() -> None:
    warnings.simplefilter("ignore", ResourceWarning)
    for name in sys.argv[2:] or checks:
        try:
            checks[name]()
            print(f"ok {name}", flush=True)
        except Exception:
            print(f"not ok {name}")
            for line in traceback.format_exc().splitlines():
                print(f"# {line}", flush=True)


main()
