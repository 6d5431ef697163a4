"""docs/connectors.md: its tables are current, its examples work."""

from __future__ import annotations

import importlib.util
import json
import re
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset
import pytest
from databases import TargetDatabase, sqlite_place

from ottla.connect.plugins import Plugins
from ottla.connect.run import connector_runner
from ottla.connect.run.connector_status import ConnectorState
from ottla.connect.run.worker_context import WorkerContext
from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "connectors.md").read_text(encoding="utf-8")
EXAMPLES: list[dict[str, Any]] = [
    json.loads(text) for text in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
]
STATEMENTS = "".join(re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))


def test_tables_of_settings_are_current() -> None:
    path = ROOT / "tools" / "connectors_doc.py"
    spec = importlib.util.spec_from_file_location("connectors_doc", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.written(PAGE) == PAGE, "make connectors-doc"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example["name"])
def test_examples_have_no_errors(example: dict[str, Any]) -> None:
    connector = Plugins().connector(example["config"]["connector.class"])()
    errors = [error for value in connector.validate(example["config"]) for error in value.errors]
    assert not errors


@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(600)
def test_the_example_copies_a_table_into_files(
    spark: SparkSession, postgres: TargetDatabase, tmp_path: Path
) -> None:
    """PostgreSQL to a topic to Parquet, and to another database, as the page has it."""
    postgres.run(STATEMENTS)
    copy = sqlite_place(tmp_path / "copy.db")
    changes = {
        "orders-in": {
            "connection.url": postgres.config["connection.url"],
            "schema.pattern": str(postgres.schema),
            "poll.interval.ms": "100",
        },
        "orders-out": {"store.url": str(tmp_path / "lake")},
        "orders-copy": copy.config,
    }
    with LocalCluster() as cluster:
        worker = WorkerContext(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "exactly.once.source.support": "enabled",
                "offset.storage.partitions": "1",
                "offset.storage.replication.factor": "1",
            }
        )
        running = [
            connector_runner.start_connector(
                example["name"],
                {**example["config"], **changes[example["name"]]},
                spark=lambda: spark,
                worker=worker,
            )
            for example in EXAMPLES
            if example["name"] in changes
        ]
        try:
            found = _wait(lambda: _lake(tmp_path), lambda rows: len(rows) == 3, running)
            postgres.run("UPDATE orders SET customer = 'dora', changed = now() WHERE id = 2")
            copied = _wait(lambda: _copied(copy), lambda rows: (2, "dora") in rows, running)
        finally:
            for runner in running:
                runner.stop()
    assert [(row["id"], row["customer"], row["amount"]) for row in found] == [
        (1, "ann", Decimal("12.50")),
        (2, "bob", None),
        (3, "cleo", Decimal("0.99")),
    ]
    assert copied == [(1, "ann"), (2, "dora"), (3, "cleo")]


def _lake(folder: Path) -> list[dict[str, Any]]:
    topic = folder / "lake" / "topics" / "shop-orders"
    if not topic.exists():
        return []
    table = pyarrow.dataset.dataset(topic, format="parquet", partitioning="hive").to_table()
    return sorted(table.to_pylist(), key=lambda row: int(row["id"]))


def _copied(place: TargetDatabase) -> list[tuple[Any, ...]]:
    if not place.rows("SELECT name FROM sqlite_master WHERE name = 'shop-orders'"):
        return []
    return place.rows('SELECT id, customer FROM "shop-orders" ORDER BY id')


def _wait(
    look: Callable[[], list[Any]],
    enough: Callable[[list[Any]], bool],
    running: list[connector_runner.ConnectorRunner],
) -> list[Any]:
    deadline = time.monotonic() + 400
    while not enough(found := look()):
        for runner in running:
            assert runner.status.state is not ConnectorState.FAILED, runner.status
            assert all(task.state is not ConnectorState.FAILED for task in runner.status.tasks), (
                runner.status
            )
        assert time.monotonic() < deadline, found
        time.sleep(0.1)
    return found
