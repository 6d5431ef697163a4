"""A headless server, which executes a file; without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.rows.errors import SqlError
from ottla.sql.engine.engine import Engine
from ottla.sql.ksql_config import KsqlConfig
from ottla.sql.server.server import run_file
from ottla.testing import LocalCluster

STATEMENTS = """
-- two statements, and a property for both
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM IF NOT EXISTS o (id STRING KEY, v INT)
  WITH (KAFKA_TOPIC='headless', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM big AS SELECT id, v FROM o WHERE v > 1;
"""


def headless(cluster: LocalCluster) -> Engine:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "ksql.service.id": "headless_"}
    engine = Engine(KsqlConfig(settings), headless=True)
    engine.start()
    return engine


def test_a_file_gives_the_same_queries_at_each_start(
    sql_cluster: LocalCluster, tmp_path: Path
) -> None:
    path = tmp_path / "pipeline.sql"
    path.write_text(STATEMENTS)
    for _ in range(2):
        engine = headless(sql_cluster)
        run_file(engine, path)
        (query,) = engine.state.catalog.queries.values()
        assert query.id == "CSAS_BIG_1"
        assert query.properties["auto.offset.reset"] == "earliest"
        engine.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SHOW STREAMS;\n", "1:1: Show is not allowed in the queries file"),
        (
            "CREATE SINK CONNECTOR c WITH ('connector.class'='FileStreamSink');",
            "1:1: CreateConnector is not allowed in the queries file",
        ),
        ("\n  CREATE NONSENSE;", "2:10: unexpected 'NONSENSE'"),
        ("CREATE STREAM a AS SELECT * FROM nothing;", "NOTHING does not exist."),
    ],
)
def test_an_error_in_a_file_has_its_position(
    sql_cluster: LocalCluster, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "wrong.sql"
    path.write_text(text)
    engine = headless(sql_cluster)
    with pytest.raises(SqlError) as error:
        run_file(engine, path)
    engine.close()
    assert str(path) in error.value.message
    assert words in error.value.message
    assert not engine.state.catalog.sources


def test_an_absent_file_is_reported(sql_cluster: LocalCluster, tmp_path: Path) -> None:
    engine = headless(sql_cluster)
    with pytest.raises(SqlError, match="Can't read"):
        run_file(engine, tmp_path / "nothing.sql")
    engine.close()
