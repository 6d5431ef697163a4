"""Connector statements of SQL, with Kafka's own Connect worker and with an embedded one."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from compat_brokers import Broker, free_port
from compat_connect import KafkaWorker
from compat_sql import SqlServer

from ottla.client import Consumer
from ottla.rows.errors import SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig

PATIENCE_S = 150.0
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


def until(found: Callable[[], Any], wanted: Any, more: Callable[[], str] = str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (there := found()) != wanted:
        assert time.monotonic() < deadline, f"{there}, and not {wanted}\n{more()}"
        time.sleep(0.25)


def values(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    with Consumer(bootstrap, topics=[topic], settings={"auto.offset.reset": "earliest"}) as reader:
        found: list[bytes | None] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(found) < count:
            assert time.monotonic() < deadline, found
            record = reader.poll(1.0)
            found += [] if record is None else [record.value]
    return found


def create(file: Path, topic: str) -> str:
    return (
        f"CREATE SOURCE CONNECTOR `sql-lines` WITH ('connector.class'='{SOURCE}',"
        f" 'file'='{file}', 'topic'='{topic}', 'tasks.max'=1, 'value.converter'='{STRINGS}');"
    )


# -- Kafka's own worker


@pytest.fixture(scope="module")
def engine(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with KafkaWorker(tmp_path_factory.mktemp("connect"), broker.bootstrap, "sql-theirs") as theirs:
        given = {
            "bootstrap.servers": broker.bootstrap,
            "ksql.service.id": "theirs_",
            "ksql.connect.url": f"http://{theirs.address}",
            "ksql.connect.request.timeout.ms": "60000",
        }
        made = Engine(KsqlConfig(given))
        made.start()
        yield made
        made.close()


def refused(engine: Engine, text: str) -> SqlError:
    with pytest.raises(SqlError) as error:
        engine.execute(text)
    return error.value


@pytest.mark.maven
@pytest.mark.timeout(1000)
def test_connectors_of_kafkas_own_worker(engine: Engine, broker: Broker, tmp_path: Path) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    (plugins,) = engine.execute("SHOW CONNECTOR PLUGINS;")
    classes = {plugin["className"]: plugin["type"] for plugin in plugins["connectorsPlugins"]}
    assert classes[SOURCE] == "source"

    invalid = refused(engine, f"CREATE SOURCE CONNECTOR c WITH ('connector.class'='{SOURCE}');")
    assert 'topic - Missing required configuration "topic"' in invalid.message
    assert invalid.code == 40001
    unknown = refused(engine, "CREATE SOURCE CONNECTOR c WITH ('connector.class'='Lynes');")
    assert unknown.message.startswith("Validation error: ")
    assert "Failed to find any class that implements Connector" in unknown.message
    assert "PluginDesc" not in unknown.message

    (made,) = engine.execute(create(file, "sql_theirs"))
    assert made["@type"] == "connector_info"
    assert (made["info"]["name"], made["info"]["type"]) == ("sql-lines", "source")
    assert refused(engine, create(file, "sql_theirs")).code == 40900

    def listed() -> Any:
        """Kafka's worker rebalances after a connector was made, and can't describe it meanwhile."""
        (found,) = engine.execute("SHOW CONNECTORS;")
        warnings = [entry["message"] for entry in found["warnings"]]
        assert all("a rebalance is expected" in message for message in warnings), warnings
        return found["connectors"]

    running = {"type": "source", "className": SOURCE, "state": "RUNNING (1/1 tasks RUNNING)"}
    until(listed, [{"name": "sql-lines", **running}])
    assert values(broker.bootstrap, "sql_theirs", 2) == [b"one", b"two"]

    def topics() -> Any:
        (found,) = engine.execute("DESCRIBE CONNECTOR `sql-lines`;")
        assert (found["connectorClass"], found["status"]["type"]) == (SOURCE, "source")
        return found["topics"]

    until(topics, ["sql_theirs"])
    assert refused(engine, "DROP CONNECTOR sql_lines;").remedy == "Did you mean `sql-lines`?"
    again = f"DROP CONNECTOR `sql-lines`; {create(file, 'sql_theirs')} DROP CONNECTOR `sql-lines`;"
    kinds = [entry["@type"] for entry in engine.execute(again)]
    assert kinds == ["drop_connector", "connector_info", "drop_connector"]
    until(listed, [])
    (warned,) = engine.execute("DROP CONNECTOR IF EXISTS `sql-lines`;")
    assert warned["message"] == "Connector 'sql-lines' does not exist."


# -- a worker of the server's own


@pytest.mark.spark
@pytest.mark.timeout(1000)
def test_a_server_runs_connectors_on_its_embedded_worker(bootstrap: str, tmp_path: Path) -> None:
    file, worker = tmp_path / "in.txt", tmp_path / "worker.properties"
    file.write_text("one\ntwo\n")
    at = f"127.0.0.1:{free_port()}"
    worker.write_text(
        f"listeners=http://{at}\ngroup.id=sql-beside\noffset.storage.topic=sql-beside-offsets\n"
        "config.storage.topic=sql-beside-configs\nstatus.storage.topic=sql-beside-status\n"
        "ottla.connect.spark.master=local[2]\n"
    )
    more = [f"ksql.connect.worker.config={worker}", "ksql.connect.request.timeout.ms=60000"]
    overrides = [word for pair in more for word in ("--override", pair)]
    server = SqlServer(bootstrap, tmp_path, "beside_", *overrides)
    server.start()
    try:
        asked(server, create(file, "sql_beside"))

        def states() -> list[str]:
            (listed,) = asked(server, "SHOW CONNECTORS;")
            return [service["state"] for service in listed["connectors"]]

        until(states, ["RUNNING (1/1 tasks RUNNING)"], server.tail)
        assert values(bootstrap, "sql_beside", 2) == [b"one", b"two"]
        assert server.stop() == 0, server.tail()
        with pytest.raises(urllib.error.URLError, match="refused"):
            urllib.request.urlopen(f"http://{at}/connectors", timeout=5)
        output = server.log.read_text()
        assert f"http://{at} (started here)" in output, "the banner"
        assert f"worker.properties at http://{at}" in " ".join(output.split()), "the log"
    finally:
        server.close()


def asked(server: SqlServer, text: str) -> Any:
    body = json.dumps({"ksql": text}).encode()
    request = urllib.request.Request(f"{server.url}/ksql", body)
    with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())
