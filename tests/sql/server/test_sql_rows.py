"""Rows by REST without Spark: inserts, pull queries, PRINT."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import time
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import websockets
from sql_servers import ksql, ksql_error

from ottla.testing import LocalCluster

EVENTS = (
    "CREATE TABLE users (id STRING PRIMARY KEY, name STRING, born DATE, money DECIMAL(6, 2),"
    " tags ARRAY<STRING>) WITH (KAFKA_TOPIC='rows_users', PARTITIONS=2, VALUE_FORMAT='JSON');"
)


@pytest.fixture(scope="module", autouse=True)
def _users(client: httpx.Client) -> None:
    ksql(
        client,
        EVENTS
        + "INSERT INTO users VALUES ('a', 'ann', '2001-02-03', 12.50, ARRAY['x', 'y']);"
        + "INSERT INTO users (id, name) VALUES ('b', 'bob');",
    )


def rows(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def test_a_pull_query_by_key(client: httpx.Client) -> None:
    header, row = rows(
        client.post("/query-stream", json={"sql": "SELECT * FROM users WHERE id = 'a';"})
    )
    assert header["columnNames"] == ["ID", "NAME", "BORN", "MONEY", "TAGS"]
    assert header["columnTypes"] == ["STRING", "STRING", "DATE", "DECIMAL(6, 2)", "ARRAY<STRING>"]
    assert row == ["a", "ann", "2001-02-03", 12.5, ["x", "y"]]


def test_decimals_keep_their_digits(client: httpx.Client) -> None:
    answer = client.post("/query-stream", json={"sql": "SELECT money FROM users WHERE id='a';"})
    assert answer.text.splitlines()[1] == "[12.50]"


def test_a_scan_in_the_other_shapes(client: httpx.Client) -> None:
    sql = "SELECT id FROM users;"
    array = client.post("/query-stream", json={"sql": sql}, headers={"Accept": "application/json"})
    assert sorted(array.json()[1:]) == [["a"], ["b"]]
    old = client.post("/query", json={"ksql": sql}).json()
    assert old[0]["header"]["schema"] == "`ID` STRING KEY"
    assert sorted(line["row"]["columns"] for line in old[1:]) == [["a"], ["b"]]
    refused = client.post(
        "/query-stream",
        json={"sql": sql, "properties": {"ksql.query.pull.table.scan.enabled": False}},
    )
    assert refused.json()["error_code"] == 40001


def test_rows_as_messages_of_protobuf(client: httpx.Client) -> None:
    from ottla.schemas.protobuf.message_types import MessageTypes
    from ottla.schemas.schema_types import parse

    answer = client.post(
        "/query-stream",
        json={"sql": "SELECT id, tags FROM users WHERE id = 'a';"},
        headers={"Accept": "application/vnd.ksqlapi.protobuf.v1"},
    )
    header, row = answer.json()
    schema = parse("PROTOBUF", header["header"]["protoSchema"], {})
    data = base64.b64decode(row["row"]["protobufBytes"])
    message = MessageTypes(schema).by_indexes((0,)).FromString(data)
    assert (message.ID, list(message.TAGS)) == ("a", ["x", "y"])


def test_names_of_fields_are_quoted_in_a_header(client: httpx.Client) -> None:
    ksql(
        client,
        "CREATE TABLE places (id INT PRIMARY KEY, place ARRAY<STRUCT<city STRING>>)"
        " WITH (KAFKA_TOPIC='rows_places', PARTITIONS=1, VALUE_FORMAT='JSON');",
    )
    old = client.post("/query", json={"ksql": "SELECT place, id FROM places;"}).json()
    assert old[0]["header"]["schema"] == "`PLACE` ARRAY<STRUCT<`CITY` STRING>>, `ID` INTEGER KEY"
    ksql(client, "DROP TABLE places;")


def test_a_wrong_query_is_refused_with_its_position(client: httpx.Client) -> None:
    error = client.post("/query-stream", json={"sql": "SELECT * FROM nobody;"})
    assert error.status_code == 400
    assert error.json()["message"].startswith("line 1:15: NOBODY does not exist.")
    other = client.post("/query-stream", json={"sql": "SHOW STREAMS;"})
    assert "not supported for this resource" in other.json()["message"]


def test_inserts_are_acknowledged_one_by_one(client: httpx.Client) -> None:
    ksql(client, EVENTS.replace("TABLE users", "TABLE guests").replace("rows_users", "rows_guests"))
    lines = [
        {"target": "guests"},
        {"ID": "c", "NAME": "cid", "MONEY": 1.25, "BORN": "1999-12-31"},
        {"id": "d", "money": "much"},
        {"id": "e", "nothing": 1},
        {"name": "no key"},
        {"id": "f"},
    ]
    body = "".join(json.dumps(line) + "\n" for line in lines)
    acks = rows(client.post("/inserts-stream", content=body))
    assert [ack["status"] for ack in acks] == ["ok", "error", "error", "error", "ok"]
    assert [ack["seq"] for ack in acks] == [0, 1, 2, 3, 4]
    assert "Can't coerce" in acks[1]["message"]
    assert "does not exist" in acks[2]["message"]
    _, row = rows(client.post("/query-stream", json={"sql": "SELECT * FROM guests WHERE id='c';"}))
    assert row == ["c", "cid", "1999-12-31", 1.25, None]
    assert client.post("/inserts-stream", content=b'{"target": "nobody"}').status_code == 400
    assert client.post("/inserts-stream", content=b"").status_code == 400


def test_insert_values_are_checked(client: httpx.Client) -> None:
    wrong = ksql_error(client, "INSERT INTO users (id, money) VALUES ('x', 'much');")
    assert wrong["error_code"] == 40001
    assert (
        "NOBODY does not exist" in ksql_error(client, "INSERT INTO nobody VALUES (1);")["message"]
    )


def test_print_gives_lines_until_its_limit(client: httpx.Client) -> None:
    answer = client.post("/query", json={"ksql": "PRINT rows_users FROM BEGINNING LIMIT 2;"})
    assert answer.headers["content-type"].startswith("text/plain")
    lines = answer.text.splitlines()
    assert any("key: a" in line for line in lines) or any("key: b" in line for line in lines)


def test_an_unreadable_record_of_a_table_is_logged(
    client: httpx.Client, sql_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    ksql(
        client,
        "CREATE TABLE halves (id STRING PRIMARY KEY, v INT)"
        " WITH (KAFKA_TOPIC='rows_halves', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "INSERT INTO halves VALUES ('a', 1);",
    )
    with sql_cluster.producer() as producer:
        producer.send("rows_halves", b"{broken", key=b"b").result(60)
    with caplog.at_level(logging.WARNING, logger="ottla.processing"):
        _, *found = rows(client.post("/query-stream", json={"sql": "SELECT * FROM halves;"}))
    assert found == [["a", 1]]
    (line,) = [
        record.getMessage() for record in caplog.records if record.name == "ottla.processing"
    ]
    assert line.startswith("rows_halves-0 at offset 1: failed to deserialize the value: ")


@pytest.mark.parametrize("version", [1, 2])
def test_a_query_ends_when_the_client_goes_away(
    url: str, client: httpx.Client, version: int
) -> None:
    with (
        httpx.Client(base_url=url, http1=version == 1, http2=version == 2, timeout=60) as leaving,
        leaving.stream("POST", "/query", json={"ksql": "PRINT rows_users FROM BEGINNING;"}) as it,
    ):
        lines = it.iter_lines()  # closing it disconnects the client
        assert next(lines)
        assert client.get("/healthcheck").json()["openQueries"] == 1
    for _ in range(600):
        if client.get("/healthcheck").json()["openQueries"] == 0:
            return
        time.sleep(0.1)
    raise AssertionError("it is still open")


def test_websocket(url: str) -> None:
    async def asked(text: str) -> list[Any]:
        request = quote(json.dumps({"ksql": text}))
        address = f"{url.replace('http', 'ws')}/ws/query?request={request}"
        async with websockets.connect(address) as socket:
            return [json.loads(message) async for message in socket]

    schema, row = asyncio.run(asked("SELECT name FROM users WHERE id = 'a';"))
    assert schema[0]["name"] == "NAME"
    assert row["row"]["columns"] == ["ann"]


def test_functions_are_listed_and_described(client: httpx.Client) -> None:
    (listed,) = ksql(client, "SHOW FUNCTIONS;")
    assert listed["@type"] == "function_names"
    assert any(function["name"] == "SUBSTRING" for function in listed["functions"])
    (described,) = ksql(client, "DESCRIBE FUNCTION substring;")
    assert described["@type"] == "describe_function"
    assert described["functions"][0]["returnType"] == "STRING"
    assert described["functions"][0]["arguments"]
    assert "Can't find any functions" in ksql_error(client, "DESCRIBE FUNCTION nope;")["message"]


def test_explain_needs_no_spark(client: httpx.Client) -> None:
    (explained,) = ksql(client, "EXPLAIN SELECT id, name FROM users WHERE name = 'x' EMIT CHANGES;")
    assert explained["@type"] == "queryDescription"
    assert [field["name"] for field in explained["queryDescription"]["fields"]] == ["ID", "NAME"]
    assert "rows_users" in explained["queryDescription"]["topology"]


def test_queries_wait_for_spark(client: httpx.Client) -> None:
    """They are registered at once; /healthcheck names what they wait for."""
    (made,) = ksql(client, "CREATE TABLE names AS SELECT id, name FROM users;")
    query_id = made["commandStatus"]["queryId"]
    (queries,) = ksql(client, "SHOW QUERIES;")
    (found,) = [query for query in queries["queries"] if query["id"] == query_id]
    assert (found["state"], found["cause"]) == ("STARTING", "Spark is starting")
    health = client.get("/healthcheck").json()
    assert health["details"]["spark"] == {"isHealthy": True, "state": "starting"}
    assert health["serverState"] == "NOT_READY"
    (described,) = ksql(client, "DESCRIBE users;")
    assert described["sourceDescription"]["readQueries"][0]["id"] == query_id
    assert "Cannot drop USERS" in ksql_error(client, "DROP TABLE users;")["message"]
    (extended,) = ksql(client, "SHOW QUERIES EXTENDED;")
    assert extended["queryDescriptions"][0]["sinks"] == ["NAMES"]


def test_terminate_ends_every_query(sql_cluster: LocalCluster) -> None:
    from sql_servers import running

    with (
        running(sql_cluster, "ended_") as url,
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        ksql(
            client,
            EVENTS.replace("rows_users", "ended_users")
            + "CREATE TYPE ended AS STRUCT<a INT>;"
            + "CREATE SOURCE STREAM seen (id STRING KEY, name STRING)"
            + " WITH (KAFKA_TOPIC='ended_users', VALUE_FORMAT='JSON');"
            + "CREATE TABLE names WITH (KAFKA_TOPIC='ended_names') AS SELECT id, name FROM users;",
        )
        (status,) = client.post("/ksql/terminate", json={"deleteTopicList": ["ended_.*"]}).json()
        assert status["commandId"] == "terminate/CLUSTER/execute"
        shown = ksql(client, "SHOW TABLES; SHOW STREAMS; SHOW QUERIES; SHOW TYPES; SHOW TOPICS;")
        tables, streams, queries, types, topics = shown
        assert (tables["tables"], streams["streams"], queries["queries"]) == ([], [], [])
        assert types["types"] == {}
        # Only topics written by a query are deleted.
        ended = [topic["name"] for topic in topics["topics"] if topic["name"].startswith("ended_")]
        assert ended == ["ended_users"]
