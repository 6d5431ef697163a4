"""Clients of ksqlDB that others wrote, against `ottla sql-server`.

PyPI's ksqldb, npm's ksqldb-client and ksqldb-js (tools/clients/ksqldb/checks.js). All of them speak
HTTP/2 with prior knowledge, and some HTTP/1.1 beside it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from compat_brokers import CACHE, REPOSITORY
from compat_checks import Results, names_in, run_checks
from compat_sql import SqlServer
from ksqldb import KSQLdbClient

pytestmark = [
    pytest.mark.spark,
    pytest.mark.timeout(400),
    # PyPI's ksqldb closes none of its connections.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CHECKS = REPOSITORY / "tools" / "clients" / "ksqldb" / "checks.js"
PATIENCE_S = 90.0
EARLIEST = {"ksql.streams.auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def server(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlServer]:
    made = SqlServer(bootstrap, tmp_path_factory.mktemp("sql"), "compat_")
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(server: SqlServer) -> KSQLdbClient:
    return KSQLdbClient(server.url)


@pytest.fixture(scope="module")
def results(server: SqlServer) -> Results:
    assert (CACHE / "ksqldb" / "node_modules").exists(), "run tools/setup_test_clients.sh first"
    return run_checks(["node", str(CHECKS), server.url])


@pytest.mark.parametrize("name", names_in(CHECKS))
def test_ksqldb_clients_for_node(results: Results, name: str) -> None:
    results.expect(name)


def test_ksqldb_for_python(server: SqlServer, client: KSQLdbClient) -> None:
    """Definitions, inserts, a table, pull and push; then the same after a restart."""
    assert any(each["name"] == "ksql.service.id" for each in client.get_properties())
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
    pull = "SELECT id, total FROM py_sums WHERE id = 'a';"
    _until(client, pull, ["a", 3])
    assert asyncio.run(_first(client, "SELECT id, v FROM py_orders EMIT CHANGES LIMIT 1;")) == [
        "a",
        1,
    ]
    assert server.stop() == 0, server.tail()
    server.start()
    _until(client, pull, ["a", 3])
    client.inserts_stream("py_orders", [{"id": "a", "v": 4}])
    _until(client, pull, ["a", 7])


def _until(client: KSQLdbClient, query: str, row: list[Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := client.query_sync(query, timeout=PATIENCE_S)[1:]) != [row]:
        assert time.monotonic() < deadline, f"{query} gives {found}, not {row}"
        time.sleep(0.2)


async def _first(client: KSQLdbClient, query: str) -> list[Any]:
    header, *rows = [each async for each in client.query_async(query, EARLIEST, timeout=PATIENCE_S)]
    assert header["columnNames"] == ["ID", "V"]
    return list(rows[0])
