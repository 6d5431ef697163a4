"""Windows, joins and table functions, each a statement of one server: from REST to topics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from sql_servers import ksql, pulled, running, until

from ottla.client import Consumer
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.run.query_executor import QueryExecutor
from ottla.sql.server.server import run_file
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1500)]

PATIENCE_S = 240.0
EARLIEST = {"auto.offset.reset": "earliest"}
SECOND = 1000


@pytest.fixture(scope="module")
def client(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("operators")
    with (
        running(sql_cluster, "operators_", spark=spark, state_dir=folder) as url,
        httpx.Client(base_url=url, http1=False, http2=True, timeout=PATIENCE_S) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def towns(client: httpx.Client) -> None:
    """A table that two tests join: each of them runs alone, too."""
    ksql(client, source("TABLE", "towns", "town STRING PRIMARY KEY, land STRING"))
    insert(client, "towns", (1, "x", "land of x"))


def source(kind: str, name: str, columns: str) -> str:
    return (
        f"CREATE {kind} {name} ({columns})"
        f" WITH (KAFKA_TOPIC='ops_{name}', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )


def insert(client: httpx.Client, name: str, *rows: tuple[Any, ...]) -> None:
    """The first value of each is its time, in seconds."""
    texts = []
    for seconds, *values in rows:
        written = ", ".join(_written(value) for value in values)
        columns = _columns[name]
        texts.append(
            f"INSERT INTO {name} (ROWTIME, {columns}) VALUES ({seconds * SECOND}, {written});"
        )
    ksql(client, "".join(texts))


_columns = {
    "clicks": "id, page",
    "lefts": "id, a",
    "rights": "id, b",
    "people": "id, name, town",
    "towns": "town, land",
    "notes": "id, words, marks",
}


def _written(value: Any) -> str:
    if isinstance(value, list):
        return f"ARRAY[{', '.join(map(_written, value))}]"
    return f"'{value}'" if isinstance(value, str) else str(value)


def records(cluster: LocalCluster, topic: str) -> list[Any]:
    """The committed records: keys, and values as in JSON."""
    found = []
    with Consumer(
        cluster.bootstrap_servers,
        topic,
        auto_offset_reset="earliest",
        settings={"isolation.level": "read_committed"},
    ) as consumer:
        while (record := consumer.poll(0.5)) is not None:
            key = record.key.decode() if record.key is not None else None
            found.append((key, *(json.loads(record.value) if record.value else {}).values()))
    return sorted(found, key=str)


def test_hopping_windows_and_sessions(client: httpx.Client) -> None:
    ksql(client, source("STREAM", "clicks", "id STRING KEY, page STRING"))
    insert(client, "clicks", (101, "a", "x"), (105, "a", "y"), (112, "a", "z"), (101, "b", "x"))
    hop = "WINDOW HOPPING (SIZE 20 SECONDS, ADVANCE BY 10 SECONDS, GRACE PERIOD 1 HOUR)"
    gap = "WINDOW SESSION (10 SECONDS, GRACE PERIOD 1 HOUR)"
    ksql(
        client,
        f"CREATE TABLE hops AS SELECT id, COUNT(*) AS n FROM clicks {hop} GROUP BY id;"
        f"CREATE TABLE visits AS SELECT id, COUNT(*) AS n, COLLECT_LIST(page) AS pages"
        f" FROM clicks {gap} GROUP BY id;",
        streamsProperties=EARLIEST,
    )
    hops = "SELECT WINDOWSTART, WINDOWEND, n FROM hops WHERE id = 'a';"
    seconds = [(90, 110, 2), (100, 120, 3), (110, 130, 1)]
    wanted = [[start * SECOND, end * SECOND, n] for start, end, n in seconds]
    until(lambda: sorted(pulled(client, hops)), wanted)
    visits = "SELECT id, WINDOWSTART, WINDOWEND, n, pages FROM visits;"
    first = [
        ["a", 101 * SECOND, 112 * SECOND, 3, ["x", "y", "z"]],
        ["b", 101 * SECOND, 101 * SECOND, 1, ["x"]],
    ]
    until(lambda: sorted(pulled(client, visits)), first)
    # A separate visit; then a late click between them merges both.
    insert(client, "clicks", (130, "a", "q"))
    second = ["a", 130 * SECOND, 130 * SECOND, 1, ["q"]]
    until(lambda: sorted(pulled(client, visits)), [first[0], second, first[1]])
    insert(client, "clicks", (121, "a", "p"))
    until(lambda: [row[1:4] for row in pulled(client, visits) if row[0] == "a"],
          [[101 * SECOND, 130 * SECOND, 5]])  # fmt: skip


@pytest.mark.usefixtures("towns")
def test_joins_of_streams_that_keep_what_has_no_partner(
    client: httpx.Client, sql_cluster: LocalCluster
) -> None:
    ksql(
        client,
        source("STREAM", "lefts", "id STRING KEY, a INT")
        + source("STREAM", "rights", "id STRING KEY, b INT"),
    )
    within = "WITHIN 10 SECONDS GRACE PERIOD 0 SECONDS ON l.id = r.id"
    ksql(
        client,
        f"CREATE STREAM at_right AS SELECT r.id AS id, a, b FROM lefts l RIGHT JOIN rights r"
        f" {within};"
        f"CREATE STREAM at_both AS SELECT ROWKEY AS id, a, b FROM lefts l FULL OUTER JOIN rights r"
        f" {within};"
        f"CREATE STREAM three AS SELECT l.id AS id, a, b, land FROM lefts l JOIN rights r {within}"
        " LEFT JOIN towns t ON l.id = t.town;",
        streamsProperties=EARLIEST,
    )
    insert(client, "lefts", (1, "x", 1), (2, "only_left", 2))
    insert(client, "rights", (5, "x", 10), (6, "only_right", 20))
    three = [("x", 1, 10, "land of x")]
    until(lambda: records(sql_cluster, "THREE"), three, PATIENCE_S)
    # Time passes: unmatched rows stay unmatched.
    for later in (100, 200):
        insert(client, "lefts", (later, f"t{later}", 0))
        insert(client, "rights", (later, f"t{later}", 0))
    paired = [("t100", 0, 0), ("t200", 0, 0), ("x", 1, 10)]
    alone = ("only_right", None, 20)
    until(lambda: records(sql_cluster, "AT_RIGHT"), [alone, *paired], PATIENCE_S)
    both = [("only_left", 2, None), alone, *paired]
    until(lambda: records(sql_cluster, "AT_BOTH"), both, PATIENCE_S)
    late = [("t100", 0, 0, None), ("t200", 0, 0, None), *three]
    until(lambda: records(sql_cluster, "THREE"), late, PATIENCE_S)


@pytest.mark.usefixtures("towns")
def test_tables_joined_by_a_foreign_key_and_rows_out_of_rows(
    client: httpx.Client, sql_cluster: LocalCluster
) -> None:
    ksql(
        client,
        source("TABLE", "people", "id INT PRIMARY KEY, name STRING, town STRING")
        + source("STREAM", "notes", "id STRING KEY, words ARRAY<STRING>, marks ARRAY<INT>"),
    )
    insert(client, "people", (1, 1, "ann", "x"), (1, 2, "bob", "y"))
    insert(client, "notes", (1, "n", ["one", "two"], [7]))
    ksql(
        client,
        "CREATE TABLE lands AS SELECT p.id AS id, name, land FROM people p"
        " LEFT JOIN towns t ON p.town = t.town;"
        "CREATE STREAM exploded AS SELECT id, EXPLODE(words) AS word, EXPLODE(marks) AS mark"
        " FROM notes;",
        streamsProperties=EARLIEST,
    )
    lands = "SELECT * FROM lands;"
    until(lambda: sorted(pulled(client, lands)), [[1, "ann", "land of x"], [2, "bob", None]])
    until(
        lambda: records(sql_cluster, "EXPLODED"), [("n", "one", 7), ("n", "two", None)], PATIENCE_S
    )
    # The other table gets y, then ann moves there, then bob is deleted.
    insert(client, "towns", (5, "y", "land of y"))
    insert(client, "people", (6, 1, "ann", "y"))
    with sql_cluster.producer() as producer:
        producer.send("ops_people", None, key=(2).to_bytes(4, "big")).result(60)
    until(lambda: pulled(client, lands), [[1, "ann", "land of y"]])
    assert pulled(client, "SELECT COUNT(*) AS n, MAX(land) AS last FROM lands;") == [
        [1, "land of y"]
    ]


def test_the_rows_of_a_headless_server(
    sql_cluster: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """Twice: records are not read again."""
    path = tmp_path / "pipeline.sql"
    path.write_text(
        "SET 'auto.offset.reset' = 'earliest';"
        "CREATE STREAM IF NOT EXISTS o (id STRING KEY, v INT)"
        " WITH (KAFKA_TOPIC='headless_rows', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE STREAM big WITH (KAFKA_TOPIC='headless_big') AS SELECT id, v FROM o WHERE v > 1;"
        "CREATE TABLE sums WITH (KAFKA_TOPIC='headless_sums') AS SELECT id, SUM(v) AS s FROM o"
        " GROUP BY id;"
    )
    settings = KsqlConfig(
        {
            "bootstrap.servers": sql_cluster.bootstrap_servers,
            "ksql.service.id": "headless_rows_",
            "ksql.streams.state.dir": str(tmp_path / "state"),
        }
    )
    for big, last in (([("a", 2)], 3), ([("a", 2), ("a", 2)], 6)):
        engine = Engine(settings, QueryExecutor(settings, lambda: spark), headless=True)
        engine.start()
        try:
            run_file(engine, path)
            with sql_cluster.producer() as producer:
                for v in (1, 2):
                    producer.send("headless_rows", json.dumps({"v": v}).encode(), key=b"a")
            until(lambda big=big: records(sql_cluster, "headless_big"), big, PATIENCE_S)
            until(
                lambda last=last: ("a", last) in records(sql_cluster, "headless_sums"),
                True,
                PATIENCE_S,
            )
        finally:
            engine.close()
