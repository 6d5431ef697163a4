"""End to end: statements by REST, rows through Spark, and the same after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sql_servers import ksql, pulled, running, until

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PATIENCE_S = 300.0
EARLIEST = {"auto.offset.reset": "earliest"}


@pytest.fixture(scope="module")
def client(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("state")
    with (
        running(sql_cluster, "spark_", spark=spark, state_dir=folder) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S) as made,
    ):
        ksql(
            made,
            "CREATE STREAM orders (id STRING KEY, who STRING, v INT)"
            " WITH (KAFKA_TOPIC='spark_orders', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "INSERT INTO orders VALUES ('a', 'ann', 1);"
            "INSERT INTO orders (id, who, v) VALUES ('b', 'bob', 2);"
            "INSERT INTO orders (v, who, id) VALUES (40, 'ann', 'c');",
        )
        yield made


def state_of(client: httpx.Client, query_id: str) -> str:
    (queries,) = ksql(client, "SHOW QUERIES;")
    return next((query["state"] for query in queries["queries"] if query["id"] == query_id), "gone")


def test_a_push_query_is_followed_and_ends_at_its_limit(client: httpx.Client) -> None:
    body = {"sql": "SELECT id, v FROM orders EMIT CHANGES LIMIT 3;", "properties": EARLIEST}
    with client.stream("POST", "/query-stream", json=body) as answer:
        assert answer.headers["content-type"].startswith("application/vnd.ksqlapi.delimited.v1")
        header, *rows = [json.loads(line) for line in answer.iter_lines()]
    assert header["columnNames"] == ["ID", "V"]
    assert header["columnTypes"] == ["STRING", "INTEGER"]
    assert rows == [["a", 1], ["b", 2], ["c", 40]]


def test_the_old_query_endpoint(client: httpx.Client) -> None:
    body = {
        "ksql": "SELECT who, v FROM orders WHERE v > 1 EMIT CHANGES LIMIT 2;",
        "streamsProperties": EARLIEST,
    }
    found = client.post("/query", json=body).json()
    assert found[0]["header"]["schema"] == "`WHO` STRING, `V` INTEGER"
    assert [line["row"]["columns"] for line in found[1:-1]] == [["bob", 2], ["ann", 40]]
    assert found[-1] == {"finalMessage": "Limit Reached"}


def test_persistent_queries_and_pull_queries(client: httpx.Client) -> None:
    stream, table = ksql(
        client,
        "CREATE STREAM big AS SELECT id, who, v FROM orders WHERE v > 1;"
        "CREATE TABLE sums AS SELECT who, SUM(v) AS total FROM orders GROUP BY who;",
        streamsProperties=EARLIEST,
    )
    query_id = table["commandStatus"]["queryId"]
    assert query_id == f"CTAS_SUMS_{table['commandSequenceNumber']}"
    until(lambda: sorted(pulled(client, "SELECT * FROM sums;")), [["ann", 41], ["bob", 2]])
    assert pulled(client, "SELECT total FROM sums WHERE who = 'ann';") == [[41]]
    until(lambda: state_of(client, query_id), "RUNNING")
    assert pulled(client, "SELECT COUNT(*) AS n, SUM(total) AS s FROM sums;") == [[2, 43]]
    assert pulled(client, "SELECT COUNT(*) FROM sums WHERE who = 'nobody';") == [[0]]
    body = {"sql": "SELECT id FROM big EMIT CHANGES LIMIT 2;", "properties": EARLIEST}
    found = client.post("/query-stream", json=body, headers={"Accept": "application/json"}).json()
    assert found[1:] == [["b"], ["c"]]
    stream_id = stream["commandStatus"]["queryId"]
    (explained,) = ksql(client, f"EXPLAIN {stream_id};")
    assert explained["queryDescription"]["sources"] == ["ORDERS"]
    ksql(client, f"PAUSE {stream_id};")
    until(lambda: state_of(client, stream_id), "PAUSED")
    ksql(client, f"RESUME {stream_id};")
    until(lambda: state_of(client, stream_id), "RUNNING")
    ksql(client, "DROP STREAM big DELETE TOPIC;")
    assert state_of(client, stream_id) == "gone"


def test_a_client_that_goes_away_ends_its_query(client: httpx.Client) -> None:
    body = {"sql": "SELECT * FROM orders EMIT CHANGES;", "properties": EARLIEST}
    with client.stream("POST", "/query-stream", json=body) as answer:
        lines = answer.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        assert json.loads(next(lines))[0] == "a"
    until(
        lambda: client.post("/close-query", json={"queryId": query_id}).status_code, 400
    )  # nobody has it any more


def test_a_query_is_closed_by_its_id(client: httpx.Client) -> None:
    body = {"sql": "SELECT * FROM orders EMIT CHANGES;", "properties": EARLIEST}
    with client.stream("POST", "/query-stream", json=body) as answer:
        lines = answer.iter_lines()
        query_id = json.loads(next(lines))["queryId"]
        (shown,) = ksql(client, "SHOW QUERIES;")
        kinds = {query["id"]: query["queryType"] for query in shown["queries"]}
        assert kinds[query_id] == "PUSH"
        assert client.post("/close-query", json={"queryId": query_id}).status_code == 200
        assert all(json.loads(line) for line in lines), "and then the answer ends"
    assert state_of(client, query_id) == "gone"


def test_inserts_stream(client: httpx.Client) -> None:
    ksql(
        client,
        "CREATE STREAM inserted (id STRING KEY, who STRING, v INT)"
        " WITH (KAFKA_TOPIC='spark_inserted', PARTITIONS=1, VALUE_FORMAT='JSON');",
    )
    lines = [{"target": "inserted"}, {"id": "d", "who": "eve", "v": 5}, {"nothing": 1}]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    acks = [
        json.loads(line) for line in client.post("/inserts-stream", content=body).text.splitlines()
    ]
    assert acks[0] == {"status": "ok", "seq": 0}
    assert (acks[1]["status"], acks[1]["seq"]) == ("error", 1)
    push = {"sql": "SELECT id, v FROM inserted EMIT CHANGES LIMIT 1;", "properties": EARLIEST}
    found = client.post("/query-stream", json=push, headers={"Accept": "application/json"}).json()
    assert found[1:] == [["d", 5]]


def test_print_shows_records(client: httpx.Client) -> None:
    text = client.post("/query", json={"ksql": "PRINT spark_orders FROM BEGINNING LIMIT 2;"}).text
    assert "ann" in text


def test_a_restarted_server_resumes_its_queries(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    start = (
        "CREATE STREAM s (id STRING KEY, v INT)"
        " WITH (KAFKA_TOPIC='again_in', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE TABLE t AS SELECT id, COUNT(*) AS c FROM s GROUP BY id;"
        "INSERT INTO s VALUES ('x', 1); INSERT INTO s VALUES ('x', 2);"
    )
    pull = "SELECT c FROM t WHERE id = 'x';"
    with (
        running(sql_cluster, "resumed_", spark=spark, state_dir=tmp_path) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
    ):
        ksql(client, start, streamsProperties=EARLIEST)
        until(lambda: pulled(client, pull), [[2]])
    with (
        running(sql_cluster, "resumed_", spark=spark, state_dir=tmp_path) as url,
        httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
    ):
        until(lambda: pulled(client, pull), [[2]])
        ksql(client, "INSERT INTO s VALUES ('x', 3);")
        until(lambda: pulled(client, pull), [[3]])
