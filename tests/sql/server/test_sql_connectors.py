"""Connector statements with a Connect worker, whose connectors only claim to run."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from sql_servers import ksql, ksql_error, running, until

sys.path.insert(0, str(Path(__file__).parents[2] / "connect/rest"))
from workers import Stage, worker

from ottla.connect.run.connect_worker import ConnectWorker
from ottla.sql.engine.connector_configs import connector_config
from ottla.sql.syntax import parse
from ottla.sql.syntax.statements import CreateConnector
from ottla.testing import LocalCluster

SECRET = "'opensesame'"
LINES = (
    "CREATE SOURCE CONNECTOR `lines` WITH ('connector.class'='Lines', 'topic'='lines',"
    f" 'tasks.max'=2, 'exact'=TRUE, \"ratio\"=0.5, 'password'={SECRET});"
)
MASKED = (
    "CREATE SOURCE CONNECTOR `lines` WITH ('connector.class'='Lines', 'topic'='[string]',"
    " 'tasks.max'='[string]', 'exact'='[string]', 'ratio'='[string]', 'password'='[string]');"
)


@pytest.fixture(scope="module")
def connect(sql_cluster: LocalCluster) -> Iterator[ConnectWorker]:
    with worker(sql_cluster.bootstrap_servers, Stage(), alone=True) as started:
        yield started


@pytest.fixture(scope="module")
def url(sql_cluster: LocalCluster, connect: ConnectWorker) -> Iterator[str]:
    more = {"ksql.connect.url": connect.url, "ksql.connect.request.timeout.ms": "60000"}
    with running(sql_cluster, "connectors_", more=more) as started:
        yield started


@pytest.fixture(autouse=True)
def no_connectors(client: httpx.Client) -> Iterator[None]:
    yield
    (listed,) = ksql(client, "SHOW CONNECTORS;")
    for connector in listed["connectors"]:
        ksql(client, f"DROP CONNECTOR `{connector['name']}`;")


def states(client: httpx.Client) -> list[str]:
    (listed,) = ksql(client, "SHOW CONNECTORS;")
    return [connector["state"] for connector in listed["connectors"]]


def test_a_connector_from_its_creation_to_its_deletion(client: httpx.Client) -> None:
    (made,) = ksql(client, LINES)
    assert made == {
        "@type": "connector_info",
        "statementText": MASKED,
        "info": {
            "name": "lines",
            "config": {
                "connector.class": "Lines",
                "topic": "lines",
                "tasks.max": "2",
                "exact": "true",
                "ratio": "0.5",
                "password": "[hidden]",
                "name": "lines",
            },
            "tasks": made["info"]["tasks"],
            "type": "source",
        },
        "warnings": [],
    }
    running = "RUNNING (2/2 tasks RUNNING)"
    until(lambda: states(client), [running])
    (listed,) = ksql(client, "LIST SOURCE CONNECTORS;")
    assert listed == {
        "@type": "connector_list",
        "statementText": "LIST SOURCE CONNECTORS;",
        "connectors": [{"name": "lines", "type": "source", "className": "Lines", "state": running}],
        "warnings": [],
    }
    assert ksql(client, "SHOW SINK CONNECTORS;")[0]["connectors"] == []
    (dropped,) = ksql(client, "DROP CONNECTOR 'lines';")
    assert dropped == {
        "@type": "drop_connector",
        "statementText": "DROP CONNECTOR 'lines';",
        "connectorName": "lines",
        "warnings": [],
    }
    assert states(client) == []


def test_a_connector_is_described_with_the_streams_over_its_topics(client: httpx.Client) -> None:
    made = "CREATE STREAM typed (v STRING) WITH (KAFKA_TOPIC='lines', PARTITIONS=1,"
    ksql(client, f"{made} VALUE_FORMAT='KAFKA');")
    ksql(client, LINES)

    def described() -> Any:
        (found,) = ksql(client, "DESCRIBE CONNECTOR `lines`;")
        return found

    until(lambda: described()["topics"], ["lines"])
    found = described()
    assert found["@type"] == "connector_description"
    assert found["connectorClass"] == "Lines"
    assert [source["name"] for source in found["sources"]] == ["TYPED"]
    status = found["status"]
    assert (status["name"], status["type"]) == ("lines", "source")
    assert status["connector"]["state"] == "RUNNING"
    assert [(task["id"], task["state"]) for task in status["tasks"]] == [
        (0, "RUNNING"),
        (1, "RUNNING"),
    ]
    assert found["warnings"] == []


def test_a_failed_connector_shows_its_trace(client: httpx.Client) -> None:
    ksql(client, LINES.replace("'tasks.max'=2", "'tasks.max'=1, 'trouble'='yes'"))
    until(lambda: states(client), ["WARNING (0/1 tasks RUNNING)"])
    (found,) = ksql(client, "DESCRIBE CONNECTOR `lines`;")
    (task,) = found["status"]["tasks"]
    assert (task["state"], task["trace"]) == ("FAILED", "Traceback: trouble")


def test_plugins_are_listed(client: httpx.Client) -> None:
    (found,) = ksql(client, "SHOW CONNECTOR PLUGINS;")
    assert found["@type"] == "connector_plugins_list"
    assert {"className": "Lines", "type": "source", "version": "1"} in found["connectorsPlugins"]
    assert {plugin["type"] for plugin in found["connectorsPlugins"]} == {"source", "sink"}


def test_names_without_quotes_are_upper_case_and_variables_are_replaced(
    client: httpx.Client,
) -> None:
    text = (
        "DEFINE topic = 'orders'; CREATE SINK CONNECTOR sheets WITH ('connector.class'='Sheets',"
        " 'topics'='${topic}', 'file'='${dir:/etc:file}');"
    )
    (made,) = ksql(client, text)
    assert made["info"]["name"] == "SHEETS"
    assert made["info"]["config"]["topics"] == "orders"
    assert made["info"]["config"]["file"] == "${dir:/etc:file}", "a worker's own reference"
    (again,) = ksql(
        client,
        "CREATE SINK CONNECTOR s2 WITH ('connector.class'='Sheets', 'topics'='${t}');",
        sessionVariables={"t": "a,b"},
    )
    assert again["info"]["config"]["topics"] == "a,b"


def test_existing_and_absent_connectors_are_distinguished(client: httpx.Client) -> None:
    ksql(client, LINES)
    exists = ksql_error(client, LINES)
    assert exists["error_code"] == 40900
    assert exists["message"].startswith("Connector lines already exists")
    assert (exists["statementText"], exists["entities"]) == (MASKED, [])
    other = LINES.replace("`lines`", "lines")
    assert "Connector LINES already exists" in ksql_error(client, other)["message"]
    (warned,) = ksql(client, LINES.replace("CONNECTOR", "CONNECTOR IF NOT EXISTS"))
    assert (warned["@type"], warned["message"]) == (
        "warning_entity",
        "Connector lines already exists",
    )
    for text, words in (
        ("DROP CONNECTOR lines;", "Failed to drop connector: Connector LINES not found"),
        ("DESCRIBE CONNECTOR lines;", "Failed to query connector status: No status found for"),
    ):
        missing = ksql_error(client, text)
        assert missing["error_code"] == 40400
        assert missing["message"].startswith(words)
        assert missing["remedy"] == "Did you mean `lines`?"
    assert "SHOW CONNECTORS;" in ksql_error(client, "DROP CONNECTOR quite_another;")["remedy"]
    (warned,) = ksql(client, "DROP CONNECTOR IF EXISTS lines;")
    assert warned["message"] == "Connector 'LINES' does not exist."


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ("'connector.class'='Lines'", 'topic - Missing required configuration "topic" which has'),
        (
            "'connector.class'='Lines', 'topic'='t', 'tasks.max'='x'",
            "tasks.max - Invalid value x for configuration tasks.max",
        ),
        ("'connector.class'='Lynes'", "which name matches Lynes"),
        ("'topic'='opensesame'", "Connector config {topic} contains no connector type"),
        ("'connector.class'=' '", "Connector type cannot be empty"),
    ],
)
def test_a_config_is_validated_before_anything_is_made(
    client: httpx.Client, properties: str, words: str
) -> None:
    text = f"CREATE SOURCE CONNECTOR c WITH ({properties});"
    error = ksql_error(client, text)
    assert error["error_code"] == 40001
    assert error["message"].startswith("Validation error: ")
    assert words in error["message"]
    assert "opensesame" not in str(error)
    assert states(client) == []


def test_several_statements_run_all_or_none(client: httpx.Client) -> None:
    wrong = "CREATE SOURCE CONNECTOR B WITH ('connector.class'='Lines');"
    made = "CREATE TYPE made_with AS INTEGER;"
    error = ksql_error(client, f"{made} {LINES} {wrong}")
    assert error["statementText"] == wrong
    assert ksql_error(client, f"{LINES} {made} DROP STREAM nothing;")["error_code"] == 40001
    assert ksql_error(client, f"{LINES} {LINES}")["error_code"] == 40900
    assert ksql_error(client, f"{LINES} DROP CONNECTOR b;")["error_code"] == 40400
    assert states(client) == []
    assert "MADE_WITH" not in ksql(client, "SHOW TYPES;")[0]["types"]
    found = ksql(client, f"{made} {LINES} DROP CONNECTOR `lines`; {LINES} SHOW CONNECTORS;")
    assert [item["@type"] for item in found] == [
        "currentStatus",
        "connector_info",
        "drop_connector",
        "connector_info",
        "connector_list",
    ]
    assert [connector["name"] for connector in found[-1]["connectors"]] == ["lines"]


def test_connectors_are_not_in_the_command_topic(client: httpx.Client) -> None:
    before = ksql(client, "CREATE TYPE t1 AS INTEGER;")[0]["commandSequenceNumber"]
    ksql(client, LINES)
    after = ksql(client, "CREATE TYPE t2 AS INTEGER;")[0]["commandSequenceNumber"]
    assert after == before + 1


def test_a_source_declared_as_a_sink_causes_a_warning(client: httpx.Client) -> None:
    (made,) = ksql(client, LINES.replace("SOURCE", "SINK"))
    assert made["info"]["type"] == "source"
    assert made["warnings"] == [{"message": "Lines is a source connector and runs as one."}]


def test_secrets_appear_in_no_log_and_no_error(
    client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    ksql(client, LINES)
    errors = [
        ksql_error(client, LINES),
        ksql_error(client, f"EXPLAIN {LINES}"),
        ksql_error(client, LINES.replace("'topic'", "'other'").replace("`lines`", "o")),
    ]
    errors.append(client.post("/query-stream", json={"sql": LINES}).json())
    assert all(error["statementText"].endswith("'password'='[string]');") for error in errors)
    assert "Created connector lines" in caplog.text
    assert "opensesame" not in caplog.text
    assert "opensesame" not in str(errors)


def test_the_jdbc_source_takes_a_key() -> None:
    (statement,) = parse(
        "CREATE SOURCE CONNECTOR j WITH ('connector.class'="
        "'io.confluent.connect.jdbc.JdbcSourceConnector', 'key'='id', 'transforms'='a');"
    )
    assert isinstance(statement, CreateConnector)
    found = connector_config(statement)
    assert "key" not in found
    assert (found["tasks.max"], found["name"]) == ("1", "J")
    assert found["transforms"] == "a,ksqlCreateKey,ksqlExtractString"
    assert found["transforms.ksqlCreateKey.fields"] == "id"
    assert found["transforms.ksqlExtractString.type"].endswith("ExtractField$Key")


# -- missing and wrong workers


def test_a_missing_worker_gives_a_remedy(sql_cluster: LocalCluster) -> None:
    more = {"ksql.connect.url": "http://127.0.0.1:1"}
    with running(sql_cluster, "no_worker_", more=more) as url, httpx.Client(base_url=url) as asked:
        for text in (LINES, "SHOW CONNECTORS;", "DROP CONNECTOR c;", "DESCRIBE CONNECTOR c;"):
            error = ksql_error(asked, text)
            assert error["error_code"] == 50000
            assert "Can't reach a Connect worker at http://127.0.0.1:1: " in error["message"]
            assert "`ottla connect worker` starts one" in error["remedy"]
            assert "ksql.connect.url" in error["remedy"]
        assert ksql_error(asked, f"CREATE TYPE t AS INTEGER; {LINES}")["error_code"] == 50000
        assert ksql(asked, "SHOW TYPES;")[0]["types"] == {}


def test_a_hanging_worker_blocks_no_other_statements(sql_cluster: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        more = {
            "ksql.connect.url": f"http://127.0.0.1:{silent.getsockname()[1]}",
            "ksql.connect.request.timeout.ms": "9000",
        }
        with (
            running(sql_cluster, "hangs_", more=more) as url,
            httpx.Client(base_url=url, timeout=60) as asked,
            ThreadPoolExecutor(4) as pool,
        ):
            ksql(asked, "SHOW STREAMS;")  # it has read its topic
            hanging = [pool.submit(ksql_error, asked, "SHOW CONNECTORS;") for _ in range(4)]
            ksql(asked, "SHOW STREAMS;")
            assert not any(future.done() for future in hanging)
            for future in hanging:
                assert "no answer within 9 s" in future.result()["message"]


class _GuardedWorker(BaseHTTPRequestHandler):
    """A worker with a password, and a web page that is not a worker."""

    def do_GET(self) -> None:
        login = self.headers.get("Authorization") == "Basic Ym9iOnB3"  # bob:pw
        page = self.path.startswith("/page")
        data = b"<html>" if page else b"[]" if login else b'{"message": "Who are you?"}'
        self.send_response(200 if page or login else 401)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def guarded() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _GuardedWorker) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_login_from_a_file(sql_cluster: LocalCluster, guarded: str, tmp_path: Path) -> None:
    file = tmp_path / "login"
    more = {
        "ksql.connect.url": guarded,
        "ksql.connect.basic.auth.credentials.source": "FILE",
        "ksql.connect.basic.auth.credentials.file": str(file),
    }
    with running(sql_cluster, "login_", more=more) as url, httpx.Client(base_url=url) as asked:
        assert "No such file" in ksql_error(asked, "SHOW CONNECTORS;")["message"]
        file.write_text("username: bob\n")
        assert "username and password" in ksql_error(asked, "SHOW CONNECTORS;")["message"]
        file.write_text("username: bob\npassword: wrong\n")
        refused = ksql_error(asked, "SHOW CONNECTORS;")
        assert refused["error_code"] == 40100
        assert "Failed to list connectors: Who are you?" in refused["message"]
        file.write_text("username: bob\npassword: pw\n")
        assert ksql(asked, "SHOW CONNECTORS;")[0]["connectors"] == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ksql.connect.url": "ftp://x"}, "ftp://x: expected something like http://"),
        ({"ksql.connect.url": "http://me:pw@host:1"}, "host:1: expected something like"),
        ({"ksql.connect.request.timeout.ms": "soon"}, "Not a number"),
        ({"ksql.connect.basic.auth.credentials.source": "VAULT"}, "must be one of: none, file"),
        ({"ksql.connect.basic.auth.credentials.source": "FILE"}, "cannot be empty if"),
    ],
)
def test_wrong_settings_are_named(
    sql_cluster: LocalCluster, settings: dict[str, str], words: str
) -> None:
    with running(sql_cluster, "wrong_", more=settings) as url, httpx.Client(base_url=url) as asked:
        error = ksql_error(asked, "SHOW CONNECTORS;")
    assert words in error["message"]
    assert "pw" not in error["message"]


def test_a_web_page_is_not_a_worker(sql_cluster: LocalCluster, guarded: str) -> None:
    more = {"ksql.connect.url": f"{guarded}/page"}
    with running(sql_cluster, "page_", more=more) as url, httpx.Client(base_url=url) as asked:
        error = ksql_error(asked, "SHOW CONNECTORS;")
    assert "the server there is no Connect worker" in error["message"]


def test_a_worker_may_use_tls(sql_cluster: LocalCluster, tmp_path: Path) -> None:
    key, certificate, both = (tmp_path / f"{name}.pem" for name in ("key", "cert", "both"))
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names, *files], check=True, capture_output=True, timeout=60)
    both.write_bytes(key.read_bytes() + certificate.read_bytes())
    given = {"listeners": "https://127.0.0.1:0", "ssl.keystore.location": str(both)}
    with worker(sql_cluster.bootstrap_servers, Stage(), alone=True, **given) as secure:
        there = {"ksql.connect.url": secure.url, "ksql.connect.request.timeout.ms": "60000"}
        with running(sql_cluster, "tls_", more=there) as url, httpx.Client(base_url=url) as asked:
            assert "certificate verify failed" in ksql_error(asked, LINES)["message"]
        there["ksql.connect.ssl.truststore.location"] = str(certificate)
        with running(sql_cluster, "tls_", more=there) as url, httpx.Client(base_url=url) as asked:
            assert ksql(asked, "SHOW CONNECTORS;")[0]["connectors"] == []
