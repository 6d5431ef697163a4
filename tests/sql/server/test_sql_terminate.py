"""TERMINATE and DROP return when the query has stopped: it writes nothing afterwards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from sql_servers import ksql, running, until

from ottla.client import Consumer
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

Found = tuple[str, str]
"""A topic, and the key of a record in it."""
PATIENCE_S = 300.0
KINDS = ("shared", "companies", "queries")
ENDS = {
    "ends_part": "CREATE STREAM ends_part AS SELECT * FROM sales WHERE v > 0;",
    "ends_sums": "CREATE TABLE ends_sums AS SELECT id, SUM(v) AS s FROM sales GROUP BY id;",
    "ends_counts": "CREATE TABLE ends_counts AS SELECT id, COUNT(*) AS n FROM sales GROUP BY id;",
    "ends_twice": "CREATE STREAM ends_twice AS SELECT id, EXPLODE(ARRAY[v, v]) AS v FROM sales;",
}
ON_TASKS = {
    "ends_each": "CREATE TABLE ends_each AS SELECT id, MAX(v) AS m FROM sales GROUP BY id;",
}
NO_CACHE = {"cache.max.bytes.buffering": "0"}


def states(client: httpx.Client) -> set[str]:
    (queries,) = ksql(client, "SHOW QUERIES;")
    return {query["state"] for query in queries["queries"]}


def keys(cluster: LocalCluster, topics: list[str], wanted: set[Found]) -> set[Found]:
    """The expected committed records of these topics, and any that follow shortly."""
    found: set[Found] = set()
    deadline = time.monotonic() + PATIENCE_S
    settings = {"isolation.level": "read_committed"}
    with Consumer(
        cluster.bootstrap_servers, topics, auto_offset_reset="earliest", settings=settings
    ) as consumer:
        while True:
            record = consumer.poll(0.5)
            if record is not None:
                found.add((record.topic, bytes(record.key or b"").decode()))
            elif wanted <= found:
                return found
            assert time.monotonic() < deadline, found


def test_nothing_is_written_after_terminate_was_answered(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    sinks = {**ENDS, **ON_TASKS}
    topics = [name.upper() for name in sinks]
    with (
        running(sql_cluster, "ends_", spark=spark, state_dir=tmp_path) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S) as client,
    ):
        ksql(
            client,
            "CREATE STREAM sales (id STRING KEY, v INT)"
            " WITH (KAFKA_TOPIC='ends_sales', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "CREATE STREAM stays WITH (KAFKA_TOPIC='ends_stays') AS SELECT * FROM sales;",
        )
        for number in range(2):
            made = ksql(client, "".join(ENDS.values()))
            made += ksql(client, "".join(ON_TASKS.values()), streamsProperties=NO_CACHE)
            ids = [result["commandStatus"]["queryId"] for result in made]
            until(lambda: states(client), {"RUNNING"})
            ksql(client, f"INSERT INTO sales VALUES ('k{number}', 1);")
            # Topics of the same names were there before: no row of the old queries comes.
            wanted = {(topic, f"k{number}") for topic in topics}
            assert keys(sql_cluster, topics, wanted) == wanted
            ksql(client, "".join(f"TERMINATE {query_id};" for query_id in ids))
            late = ("ends_stays", f"late{number}")
            ksql(client, f"INSERT INTO sales VALUES ('{late[1]}', 1);")
            everywhere = keys(sql_cluster, [*topics, "ends_stays"], wanted | {late})
            assert {item for item in everywhere if item[0] != "ends_stays"} == wanted
            drops = (f"DROP {text.split()[1]} {name} DELETE TOPIC;" for name, text in sinks.items())
            ksql(client, "".join(drops))
        (queries,) = ksql(client, "SHOW QUERIES;")
        (stays_id,) = (query["id"] for query in queries["queries"])
        (folder,) = (path.parent for path in tmp_path.rglob("shared"))
        assert len(list((folder / "shared").iterdir())) == 1
        ksql(client, f"TERMINATE {stays_id};")
        assert [path for kind in KINDS for path in folder.glob(f"{kind}/*")] == []
