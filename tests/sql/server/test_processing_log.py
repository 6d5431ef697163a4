"""Unreadable records are counted, logged, and written to the processing log."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sql_servers import ksql, pulled, running, until

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PATIENCE_S = 300.0
EARLIEST = {"auto.offset.reset": "earliest"}
LOG = "told_ksql_processing_log"


@pytest.fixture
def client(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> Iterator[httpx.Client]:
    with (
        running(sql_cluster, "told_", spark=spark, state_dir=tmp_path) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S) as made,
    ):
        yield made


def explained(client: httpx.Client, query_id: str) -> dict[str, Any]:
    (found,) = ksql(client, f"EXPLAIN {query_id};")
    description: dict[str, Any] = found["queryDescription"]
    return description


def test_queries_log_the_records_they_skip(
    client: httpx.Client, sql_cluster: LocalCluster, caplog: pytest.LogCaptureFixture
) -> None:
    ksql(
        client,
        "CREATE STREAM plain (id STRING KEY, v INT)"
        " WITH (KAFKA_TOPIC='told_plain', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE STREAM kept (id STRING KEY, v INT)"
        " WITH (KAFKA_TOPIC='told_kept', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE TABLE names (id STRING PRIMARY KEY, name STRING)"
        " WITH (KAFKA_TOPIC='told_names', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "INSERT INTO names VALUES ('a', 'ann');",
    )
    with sql_cluster.producer() as producer:
        for topic in ("told_plain", "told_kept"):
            for value in (b'{"v": 1}', b"{broken", b'{"v": 2}'):
                producer.send(topic, value, key=b"a")
    counted, joined = (
        answer["commandStatus"]["queryId"]
        for answer in ksql(
            client,
            "CREATE TABLE counted AS SELECT id, COUNT(*) AS n FROM plain GROUP BY id;"
            "CREATE STREAM joined AS SELECT k.id AS id, k.v AS v, n.name AS name"
            " FROM kept k JOIN names n ON k.id = n.id;",
            streamsProperties=EARLIEST,
        )
    )
    with caplog.at_level(logging.WARNING, logger="ottla.processing"):
        until(lambda: pulled(client, "SELECT n FROM counted WHERE id = 'a';"), [[2]])
        for query_id, topic in ((counted, "told_plain"), (joined, "told_kept")):
            until(lambda query_id=query_id: len(explained(client, query_id)["unreadable"]), 1)
            (words,) = explained(client, query_id)["unreadable"]
            assert words.startswith(
                f"1 records of {topic} could not be deserialized and were skipped. "
            )
            assert f"{topic}-0 at offset 1: failed to deserialize" in words
            assert f"PRINT '{LOG}' FROM BEGINNING;" in words
    output = [record.getMessage() for record in caplog.records if record.name == "ottla.processing"]
    assert (
        sum(
            "told_plain-0 at offset 1: failed to deserialize the value: " in line for line in output
        )
        == 1
    )
    assert sum("told_kept-0 at offset 1: failed to deserialize" in line for line in output) == 1
    (described,) = ksql(client, "DESCRIBE plain EXTENDED;")
    assert "1 records of told_plain" in described["sourceDescription"]["errorStats"]

    with sql_cluster.consumer(LOG, auto_offset_reset="earliest") as consumer:
        messages = [json.loads(record.value or b"") for record in consumer.take(2)]
    errors = [message["message"]["deserializationError"] for message in messages]
    assert {error["topic"] for error in errors} == {"told_plain", "told_kept"}
    assert {message["message"]["type"] for message in messages} == {0}
