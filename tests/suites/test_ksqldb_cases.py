"""What the runners of ksqlDB's cases decide without a broker."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from suites.ksqldb_cases import Case
from suites.ksqldb_comparison import difference
from suites.ksqldb_spark import kind_of, sampled

from ottla.cli.local.process_identity import identity_of
from ottla.client.schema_registry import SchemaRegistry
from ottla.rows.schema import Layout
from ottla.sql import SqlTestDriver
from ottla.sql.testing.memory_registry import MemoryRegistry
from ottla.sql.testing.memory_topics import MemoryRecord

REGISTRY: SchemaRegistry = MemoryRegistry()
PATIENCE_S = 60.0


def case(name: str, *statements: str, **fields: Any) -> Case:
    return Case(name, {"statements": list(statements), **fields})


def test_the_kind_of_a_case() -> None:
    assert kind_of(case("a", "CREATE STREAM a AS SELECT * FROM b;")) == "stateless"
    assert kind_of(case("a", "CREATE TABLE a AS SELECT COUNT(*) FROM b GROUP BY x;")) == "group by"
    windowed = "CREATE TABLE a AS SELECT 1 FROM b WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY x;"
    assert kind_of(case("a", windowed)) == "window"
    assert kind_of(case("a", "CREATE STREAM a AS SELECT 1 FROM b JOIN c ON b.x = c.x;")) == "join"
    assert kind_of(case("a", "nonsense", expectedException={})) == "negative"


def test_a_sample_has_each_file_by_its_share_and_depends_on_the_seed_alone() -> None:
    cases = [case(f"{file} - {n}", "x") for file in ("a", "b") for n in range(100)]
    cases += [case(f"small - {n}", "x") for n in range(10)]
    chosen = sampled(cases, 21, 16)
    assert chosen == sampled(cases, 21, 16) != sampled(cases, 21, 17)
    assert Counter(found.name.split(" - ")[0] for found in chosen) == {"a": 10, "b": 10, "small": 1}
    assert len({found.name for found in sampled(cases, 210, 16)}) == 210


def layout_of(table: bool) -> Layout:
    kind, key = ("TABLE", "STRING PRIMARY KEY") if table else ("STREAM", "STRING KEY")
    with SqlTestDriver() as driver:
        driver.execute(
            f"CREATE {kind} s (id {key}, v INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"
        )
        return driver.source("s").layout


def record(key: str, v: int | None, partition: int = 0) -> MemoryRecord:
    value = None if v is None else b'{"V":%d}' % v
    return MemoryRecord("t", partition, 0, key.encode(), value, 0)


def wanted(*rows: tuple[str, int | None]) -> list[dict[str, Any]]:
    return [{"topic": "t", "key": k, "value": None if v is None else {"V": v}} for k, v in rows]


def compared(
    expected: list[dict[str, Any]], *partitions: list[MemoryRecord], merged: bool = False
) -> str:
    layouts = {"t": layout_of(table=merged)}
    return difference(expected, layouts, lambda topic: partitions, REGISTRY, merged=merged)


def test_records_are_compared_in_order() -> None:
    two = wanted(("a", 1), ("b", 2))
    assert compared(two, [record("a", 1), record("b", 2)]) == ""
    assert "key: expected 'a', found 'b'" in compared(two, [record("b", 2), record("a", 1)])
    assert compared(two, [record("a", 1)]) == "fewer records: 1 instead of 2 in t"
    more = [record("a", 1), record("b", 2), record("c", 3)]
    assert compared(two, more) == "more records: 3 instead of 2 in t"


def test_there_is_no_order_between_partitions() -> None:
    three = wanted(("a", 1), ("b", 2), ("a", 3))
    assert compared(three, [record("b", 2, 0)], [record("a", 1, 1), record("a", 3, 1)]) == ""
    assert compared(three, [record("b", 2, 0)], [record("a", 3, 1), record("a", 1, 1)]) != ""


def test_with_a_record_cache_the_last_record_of_a_key_counts() -> None:
    updates = wanted(("a", 1), ("b", 2), ("a", 3), ("c", 4), ("c", None))
    assert compared(updates, [record("b", 2), record("a", 3)], merged=True) == ""
    gone = [record("b", 2), record("c", 4), record("a", 3), record("c", None)]
    assert compared(updates, gone, merged=True) == ""
    assert "expected {'V': 3}" in compared(updates, [record("b", 2), record("a", 1)], merged=True)
    assert "fewer records" in compared(updates, [record("a", 3)], merged=True)


PROGRAM = """
import importlib, subprocess, sys, time
from contextlib import contextmanager

@contextmanager
def detached(*_):
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    try:
        print(server.pid, flush=True)
        time.sleep(600)
        yield []
    finally:
        server.kill()

name, of, *words = sys.argv[1:]
module = importlib.import_module(name)
setattr(module, of, detached)
module.main(words)
"""


@pytest.mark.parametrize(
    ("module", "servers", "cases"),
    [
        ("suites.ksqldb_spark", "lanes", []),
        ("suites.ksql.__main__", "running_sql_server", ["--cases"]),
    ],
)
def test_a_runner_that_is_ended_stops_its_servers(
    module: str, servers: str, cases: list[str], tmp_path: Path
) -> None:
    """They have their own sessions, so the signal to the runner's group does not reach them."""
    words = ["--bootstrap", "h:1", "--registry", "http://h:1", "--folder", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, module, servers, *words, *cases, str(tmp_path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        text=True,
    ) as runner:
        assert runner.stdout is not None
        server = identity_of(int(runner.stdout.readline()))
        assert server is not None
        runner.terminate()
        assert runner.wait(PATIENCE_S) == 130
    assert not server.is_alive
