"""ksqlDB's REST API, without Spark."""

from __future__ import annotations

import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sql_servers import ksql, ksql_error, running, until

from ottla.rest.hypercorn_server import HypercornServer
from ottla.sql.engine import engine as engine_module
from ottla.sql.engine.command_topic import Command, CommandTopic
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.server.app import THREADS_MAX, make_app
from ottla.testing import LocalCluster

ORDERS = (
    "CREATE STREAM orders (id STRING KEY, v INT)"
    " WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');"
)


@pytest.fixture(scope="module", autouse=True)
def _orders(client: httpx.Client) -> None:
    ksql(client, ORDERS)


def test_a_statement_that_changes_something_gives_its_status(client: httpx.Client) -> None:
    (status,) = ksql(client, "CREATE TYPE address AS STRUCT<street STRING>;")
    number = status.pop("commandSequenceNumber")
    assert status == {
        "@type": "currentStatus",
        "statementText": "CREATE TYPE address AS STRUCT<street STRING>;",
        "commandId": "type/ADDRESS/create",
        "commandStatus": {
            "status": "SUCCESS",
            "message": "Registered custom type with name 'ADDRESS' and SQL type"
            " STRUCT<STREET STRING>",
            "queryId": None,
        },
        "warnings": [],
    }
    (listed,) = ksql(client, "SHOW TYPES;", commandSequenceNumber=number)
    assert listed["@type"] == "type_list"
    assert listed["types"]["ADDRESS"]["fields"][0]["name"] == "STREET"


def test_streams_tables_and_topics_are_listed(client: httpx.Client) -> None:
    streams, tables, topics = ksql(client, "SHOW STREAMS; LIST TABLES; SHOW TOPICS;")
    assert streams["streams"] == [
        {
            "type": "STREAM",
            "name": "ORDERS",
            "topic": "orders",
            "keyFormat": "KAFKA",
            "valueFormat": "JSON",
            "isWindowed": False,
        }
    ]
    assert (tables["@type"], tables["tables"]) == ("tables", [])
    assert {"name": "orders", "replicaInfo": [1, 1]} in topics["topics"]
    assert not any(topic["name"].startswith("_") for topic in topics["topics"])
    (every,) = ksql(client, "SHOW ALL TOPICS EXTENDED;")
    assert every["@type"] == "kafka_topics_extended"
    assert any(topic["name"].endswith("command_topic") for topic in every["topics"])
    assert {"consumerCount", "consumerGroupCount"} <= set(every["topics"][0])


def test_a_stream_is_described(client: httpx.Client) -> None:
    (plain,) = ksql(client, "DESCRIBE orders;")
    assert plain["@type"] == "sourceDescription"
    described = plain["sourceDescription"]
    assert described["fields"] == [
        {
            "name": "ID",
            "schema": {"type": "STRING", "fields": None, "memberSchema": None},
            "type": "KEY",
        },
        {"name": "V", "schema": {"type": "INTEGER", "fields": None, "memberSchema": None}},
    ]
    (more,) = ksql(client, "DESCRIBE orders EXTENDED;")
    described = more["sourceDescription"]
    assert (described["partitions"], described["replication"]) == (2, 1)
    assert described["statement"] == ORDERS
    (listed,) = ksql(client, "DESCRIBE STREAMS;")
    assert listed["@type"] == "source_descriptions"


def test_errors_have_ksqldbs_shape(client: httpx.Client) -> None:
    error = ksql_error(client, "DESCRIBE nothing;")
    assert error["@type"] == "statement_error"
    assert error["error_code"] == 40001
    assert error["message"].startswith("Could not find STREAM/TABLE 'NOTHING' in the Metastore")
    assert error["statementText"] == "DESCRIBE nothing;"
    assert error["entities"] == []
    syntax = ksql_error(client, "SHOW STREAMS; CREATE NONSENSE;")
    assert (syntax["line"], syntax["column"]) == (1, 22)
    query = ksql_error(client, "SELECT * FROM orders EMIT CHANGES;")
    assert query["error_code"] == 40002
    malformed = client.post("/ksql", content=b"{").json()
    assert malformed["error_code"] == 40000
    assert client.post("/ksql", json={"other": 1}).status_code == 400
    assert client.get("/nothing").json()["error_code"] == 40400
    assert client.get("/ksql").json()["error_code"] == 40500


def test_nothing_is_done_when_a_later_statement_is_wrong(client: httpx.Client) -> None:
    error = ksql_error(client, "CREATE TYPE t1 AS INT; DROP STREAM nothing;")
    assert error["statementText"] == "DROP STREAM nothing;"
    (listed,) = ksql(client, "SHOW TYPES;")
    assert "T1" not in listed["types"]


def test_if_not_exists_warns(client: httpx.Client) -> None:
    (warned,) = ksql(client, ORDERS.replace("STREAM", "STREAM IF NOT EXISTS"))
    assert warned["@type"] == "warning_entity"
    (status,) = ksql(client, "DROP TABLE IF EXISTS nothing;")
    assert status["commandStatus"]["message"] == "Source `NOTHING` does not exist."


def test_properties_and_variables(client: httpx.Client) -> None:
    (shown,) = ksql(
        client, "SHOW PROPERTIES;", streamsProperties={"ksql.streams.auto.offset.reset": "earliest"}
    )
    values = {property_["name"]: property_["value"] for property_ in shown["properties"]}
    assert values["auto.offset.reset"] == "earliest"
    assert values["ksql.streams.state.dir"], "the default path"
    assert shown["overwrittenProperties"] == ["auto.offset.reset"]
    (later,) = ksql(client, "SET 'auto.offset.reset'='earliest'; SHOW PROPERTIES;")
    assert later["overwrittenProperties"] == ["auto.offset.reset"]
    assert "Cannot override" in ksql_error(client, "SET 'ksql.service.id'='x';")["message"]
    assert "Invalid value" in ksql_error(client, "SET 'auto.offset.reset'='x';")["message"]
    (variables,) = ksql(
        client, "DEFINE a = 'b'; SHOW VARIABLES;", sessionVariables={"topic": "orders"}
    )
    named = {variable["name"]: variable["value"] for variable in variables["variables"]}
    assert {name.upper(): value for name, value in named.items()} == {"TOPIC": "orders", "A": "b"}


def test_a_property_is_known_or_not(client: httpx.Client) -> None:
    assert client.get("/is_valid_property/auto.offset.reset").json() is True
    assert client.get("/is_valid_property/ksql.streams.num.stream.threads").json() is True
    early = client.get("/is_valid_property/auto.offset.reset?value=early")
    assert early.status_code == 400
    assert "earliest, latest" in early.json()["message"]
    wrong = client.get("/is_valid_property/nothing")
    assert wrong.status_code == 400
    assert "Not recognizable as ksql" in wrong.json()["message"]


def test_info_and_healthcheck(client: httpx.Client) -> None:
    info = client.get("/info").json()["KsqlServerInfo"]
    assert info["serverStatus"] == "RUNNING"
    assert info["ksqlServiceId"] == "test_sql_rest_"
    assert info["kafkaClusterId"]
    health = client.get("/healthcheck").json()
    assert health["isHealthy"] is True
    assert health["details"]["kafka"] == {"isHealthy": True}
    (host,) = client.get("/clusterStatus").json()["clusterStatus"].values()
    assert host["hostAlive"] is True
    assert client.get("/", follow_redirects=True).json()["KsqlServerInfo"] == info
    assert client.get("/v1/metadata/id").status_code == 200


def test_statements_that_wait_delay_no_healthcheck(sql_cluster: LocalCluster) -> None:
    more = {"ksql.server.command.response.timeout.ms": "600000"}
    with (
        running(sql_cluster, "waits_", more=more) as busy,
        running(sql_cluster, "waits_", more=more) as other,
        httpx.Client(timeout=600, limits=httpx.Limits(max_connections=THREADS_MAX + 1)) as client,
        ThreadPoolExecutor(THREADS_MAX) as clients,
    ):
        first = "CREATE STREAM a (v INT) WITH (KAFKA_TOPIC='a', PARTITIONS=1, FORMAT='JSON');"
        (made,) = client.post(f"{other}/ksql", json={"ksql": first}).json()
        late = {"ksql": "SHOW STREAMS;", "commandSequenceNumber": made["commandSequenceNumber"] + 1}
        shown = [clients.submit(client.post, f"{busy}/ksql", json=late) for _ in range(THREADS_MAX)]
        until(waiting_threads, THREADS_MAX)
        assert client.get(f"{busy}/healthcheck").json()["isHealthy"] is True
        assert client.get(f"{busy}/info").status_code == 200
        assert not any(answer.done() for answer in shown)
        client.post(f"{other}/ksql", json={"ksql": first.replace(" a ", " b ")})
        assert {answer.result().status_code for answer in shown} == {200}


def waiting_threads() -> int:
    """How many threads of this process wait for a command."""
    frames = map(traceback.extract_stack, sys._current_frames().values())
    waiting = "command_runner.py", "wait"
    return sum(
        any((Path(call.filename).name, call.name) == waiting for call in frame) for frame in frames
    )


def test_the_status_of_a_command_is_shown(client: httpx.Client) -> None:
    found = client.get("/status").json()["commandStatuses"]
    assert found["stream/`ORDERS`/create"] == "SUCCESS"
    assert client.get("/status/stream/ORDERS/create").json() == {
        "status": "SUCCESS",
        "message": "Stream created",
        "queryId": None,
    }
    assert client.get("/status/stream/NOTHING/create").status_code == 404


def test_topics_are_asserted(client: httpx.Client) -> None:
    (entity,) = ksql(client, "ASSERT TOPIC orders WITH (PARTITIONS=2);")
    assert (entity["@type"], entity["exists"]) == ("assert_topic", True)
    (entity,) = ksql(client, "ASSERT NOT EXISTS TOPIC nothing;")
    assert entity["exists"] is False
    error = ksql_error(client, "ASSERT TOPIC nothing TIMEOUT 1 MILLISECONDS;")
    assert error["message"].startswith("Topic nothing does not exist")


def test_http_1_is_supported_too(url: str) -> None:
    with httpx.Client(base_url=url, timeout=60) as old:
        answer = old.post(
            "/ksql",
            json={"ksql": "SHOW STREAMS;"},
            headers={"Accept": "application/vnd.ksql.v1+json"},
        )
        assert answer.http_version == "HTTP/1.1"
        assert answer.headers["content-type"] == "application/vnd.ksql.v1+json"
        assert answer.json()[0]["@type"] == "streams"


def test_a_connection_serves_any_number_of_requests(client: httpx.Client) -> None:
    for _ in range(1100):
        assert client.get("/is_valid_property/auto.offset.reset").status_code == 200


def test_drop_delete_topic(client: httpx.Client) -> None:
    ksql(
        client,
        "CREATE TABLE gone (id STRING PRIMARY KEY, v INT)"
        " WITH (KAFKA_TOPIC='gone', PARTITIONS=1, VALUE_FORMAT='JSON');",
    )
    (status,) = ksql(client, "DROP TABLE gone DELETE TOPIC;")
    assert status["commandStatus"]["message"] == "Source `GONE` (topic: gone) was dropped."
    (topics,) = ksql(client, "SHOW TOPICS;")
    assert "gone" not in [topic["name"] for topic in topics["topics"]]


def test_a_restarted_server_keeps_its_definitions(sql_cluster: LocalCluster) -> None:
    with running(sql_cluster, "again_") as first, httpx.Client(base_url=first) as client:
        ksql(client, ORDERS.replace(", PARTITIONS=2", "") + "CREATE TYPE t AS INT;")
    with running(sql_cluster, "again_") as second, httpx.Client(base_url=second) as client:
        streams, types = ksql(client, "SHOW STREAMS; SHOW TYPES;")
    assert [stream["name"] for stream in streams["streams"]] == ["ORDERS"]
    assert list(types["types"]) == ["T"]


def test_two_servers_of_one_service_write_at_the_same_time(sql_cluster: LocalCluster) -> None:
    """Each validates its own command: an overtaken server validates again, and retries."""
    with (
        running(sql_cluster, "two_") as first,
        running(sql_cluster, "two_") as second,
        httpx.Client(base_url=first, timeout=60) as one,
        httpx.Client(base_url=second, timeout=60) as other,
        ThreadPoolExecutor(2) as threads,
    ):
        made = [
            threads.submit(ksql, client, f"CREATE TYPE t{number}_{name} AS INT;")
            for number in range(8)
            for name, client in (("a", one), ("b", other))
        ]
        numbers = [result.result()[0]["commandSequenceNumber"] for result in made]
        assert len(set(numbers)) == 16
        for client in (one, other):
            (listed,) = ksql(client, "SHOW TYPES;", commandSequenceNumber=max(numbers))
            assert len(listed["types"]) == 16
        both = [threads.submit(_status, client) for client in (one, other)]
        assert sorted(future.result() for future in both) == [200, 400], "a name is given once"


def _status(client: httpx.Client) -> int:
    return client.post("/ksql", json={"ksql": "CREATE TYPE same AS INT;"}).status_code


def test_unreadable_commands_are_shown_and_skipped(
    sql_cluster: LocalCluster,
) -> None:
    topic = CommandTopic(sql_cluster.bootstrap_servers, "old_")
    topic.make()
    with sql_cluster.producer() as producer:
        producer.send(topic.name, b"nonsense", key=b"?").result()
    topic.write(Command("stream/`O`/create", "CREATE STREAM o AS SELECT * FROM gone;", basis=0))
    topic.write(Command("type/T/create", "CREATE TYPE t AS INT;", basis=1))
    topic.close()
    with running(sql_cluster, "old_") as url, httpx.Client(base_url=url, timeout=60) as client:
        types, queries = ksql(client, "SHOW TYPES; SHOW QUERIES;")
        assert list(types["types"]) == ["T"]
        (failed,) = queries["queries"]
        assert (failed["id"], failed["state"]) == ("CSAS_O_1", "FAILED")
        assert "GONE does not exist" in failed["cause"]
        assert client.get("/info").json()["KsqlServerInfo"]["serverStatus"] == "DEGRADED"
        health = client.get("/healthcheck").json()
        assert health["isHealthy"] is True
        assert len(health["details"]["commandRunner"]["failedCommands"]) == 2
        ksql(client, "DROP STREAM o;")
        assert ksql(client, "SHOW QUERIES;")[0]["queries"] == []


def test_a_server_without_a_broker_fails_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "TROUBLE_S", 0.1)
    engine = Engine(KsqlConfig({"bootstrap.servers": "127.0.0.1:1"}))
    engine.start()
    try:
        with (
            HypercornServer(make_app(engine)) as serving,
            httpx.Client(base_url=serving.url, timeout=240) as client,
        ):
            answer = client.post("/ksql", json={"ksql": "SHOW STREAMS;"})
        assert answer.status_code == 503
        assert "cannot reach 127.0.0.1:1" in answer.json()["message"]
        assert "Is the broker running" in answer.json()["remedy"]
    finally:
        engine.close()


def test_a_headless_server_takes_no_statements(sql_cluster: LocalCluster) -> None:
    with (
        running(sql_cluster, "headless_", headless=True) as started,
        httpx.Client(base_url=started, timeout=60) as client,
    ):
        error = ksql_error(client, "SHOW STREAMS;")
        assert "headless" in error["message"]
        assert client.get("/info").status_code == 200
