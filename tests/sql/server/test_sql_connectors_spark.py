"""A connector created by SQL copies a file to a topic, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sql_servers import ksql, ksql_error, pulled, running, until

from ottla.connect.run.connect_worker import ConnectWorker
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PATIENCE_S = 300.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"


def test_a_file_is_read_into_a_topic(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\ntwo\n")
    worker = {
        "bootstrap.servers": sql_cluster.bootstrap_servers,
        "listeners": "http://127.0.0.1:0",
        "group.id": "sql-connect",
        "key.converter": STRINGS,
        "value.converter": STRINGS,
    }
    with ConnectWorker(worker, spark=lambda: spark) as connect:
        more = {"ksql.connect.url": connect.url, "ksql.connect.request.timeout.ms": "60000"}
        with (
            running(sql_cluster, "files_", spark=spark, state_dir=tmp_path, more=more) as url,
            httpx.Client(base_url=url, timeout=PATIENCE_S) as client,
        ):
            read_by_sql(client, file)


def read_by_sql(client: httpx.Client, file: Path) -> None:
    made = ksql(
        client,
        "CREATE STREAM typed (v STRING)"
        "  WITH (KAFKA_TOPIC='typed', PARTITIONS=1, VALUE_FORMAT='KAFKA');"
        "CREATE SOURCE CONNECTOR typing WITH ('connector.class'='FileStreamSource',"
        f" 'file'='{file}', 'topic'='typed', 'tasks.max'=1);",
    )
    assert [result["@type"] for result in made] == ["currentStatus", "connector_info"]

    def listed() -> list[Any]:
        (found,) = ksql(client, "SHOW SOURCE CONNECTORS;")
        return [(connector["name"], connector["state"]) for connector in found["connectors"]]

    until(listed, [("TYPING", "RUNNING (1/1 tasks RUNNING)")])
    until(lambda: pulled(client, "SELECT v FROM typed;"), [["one"], ["two"]])
    with file.open("a") as more:
        more.write("three\n")
    until(lambda: pulled(client, "SELECT v FROM typed;"), [["one"], ["two"], ["three"]])
    (described,) = ksql(client, "DESCRIBE CONNECTOR typing;")
    assert described["connectorClass"] == "FileStreamSource"
    assert described["status"]["connector"]["state"] == "RUNNING"
    assert described["topics"] == ["typed"]
    assert [source["name"] for source in described["sources"]] == ["TYPED"]
    (dropped,) = ksql(client, "DROP CONNECTOR typing;")
    assert dropped["connectorName"] == "TYPING"
    assert listed() == []
    assert ksql_error(client, "DESCRIBE CONNECTOR typing;")["error_code"] == 40400
