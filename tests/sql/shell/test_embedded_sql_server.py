"""`ottla sql` with an embedded server, in a terminal, with a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.main import main
from ottla.testing import LocalCluster

SPARK_S = 240.0


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_from_nothing_to_a_table(kafka: LocalCluster, terminal: Callable[..., Any]) -> None:
    shell = terminal("sql", "--bootstrap-server", kafka.bootstrap_servers)
    shell.expect("sql>")  # Spark is not there yet
    shell.type(
        "CREATE STREAM orders (id STRING KEY, amount DOUBLE)\r"
        "WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=1);\r"
    )
    shell.expect("done Stream created", SPARK_S)
    shell.expect("sql>")
    shell.type("INSERT INTO orders VALUES ('a', 2.5); INSERT INTO orders VALUES ('b', 4.0);\r")
    shell.expect("sql>")
    shell.type("SET 'auto.offset.reset' = 'earliest';\r")
    shell.expect("= earliest")
    shell.expect("sql>")
    shell.type("SELECT id, amount * 2 AS twice FROM orders EMIT CHANGES;\r")
    shell.expect(r"│ b +│ 8.0 +│", SPARK_S)
    shell.type("\x03")  # to the shell only, and not to its process
    shell.expect("query ended")
    shell.expect("sql>")
    shell.type("CREATE TABLE totals AS SELECT id, SUM(amount) AS total FROM orders GROUP BY id;\r")
    shell.expect("CTAS_TOTALS_", SPARK_S)
    shell.expect("sql>")
    shell.type("SELECT * FROM totals EMIT CHANGES LIMIT 2;\r")
    shell.expect("2 rows", SPARK_S)
    shell.expect("sql>")
    shell.type("SELECT total FROM totals WHERE id = 'b';\r")
    shell.expect(r"│ 4.0 +│", SPARK_S)
    shell.expect("sql>")
    shell.type("SELECT id FROM totals ORDER BY total DESC;\r")
    shell.expect(r"(?s)│ b +│.*│ a +│", SPARK_S)
    shell.expect("sql>")
    shell.type("SELECT nope FROM totals;\r")
    shell.expect(r"\^\s+error")
    shell.expect("sql>")
    shell.type("exit\r")
    assert shell.close() == 0


def test_without_a_broker_the_server_fails_at_once(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert main(["sql", "--bootstrap-server", "127.0.0.1:1", "-e", "SHOW STREAMS;"]) == 1
    output = capsys.readouterr().err
    assert "no broker at 127.0.0.1:1" in output
    assert "`ottla serve` starts one" in output


def test_a_spark_connect_server_is_refused_with_the_reason(
    kafka: LocalCluster,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    where = ["--bootstrap-server", kafka.bootstrap_servers, "--remote", "sc://host:15002"]
    for command in (["sql", "-e", "SHOW STREAMS;"], ["sql-server", "--port", "0"]):
        assert main([*command, *where]) == 1
        output = " ".join(capsys.readouterr().err.split())
        assert "does not run on a Spark Connect server (sc://host:15002)" in output
        assert "--master spark://host:7077" in output


def test_a_running_server_has_its_spark(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sql", "--server", "http://localhost:1", "--master", "local[1]"]) == 1
    assert "omit --master and --remote" in capsys.readouterr().err
