"""The examples of docs/spark.md, run as printed against a local broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"


def examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_every_example_of_the_page_runs(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    batch, stream, writing, twice, schemas = examples()
    known: dict[str, Any] = {}
    with LocalCluster(registry=True) as broker:
        with broker.producer(key=str, value=str) as producer:
            for number in range(6):
                producer.send("orders", f"order {number}", key=f"customer {number % 2}")
            producer.send("numbers", "7")

        def run(text: str) -> None:
            text = text.replace("localhost:9092", broker.bootstrap_servers)
            text = text.replace("http://localhost:8081", broker.registry_url)
            text = text.replace("session.start()", 'session.start(master="local[2]")')
            for place in ("/tmp/counts", "/data/checkpoints/orders"):
                text = text.replace(place, str(tmp_path / place.replace("/", "-")))
            exec(compile(text, str(PAGE), "exec"), known)

        run(batch)
        assert "order 5" in capfd.readouterr().out
        run(stream)
        assert "{'orders': {'0': 6}}" in capfd.readouterr().out.replace('"', "'")
        reader = spark.readStream.format("ottla").option("subscribe", "numbers")
        reader = reader.option("kafka.bootstrap.servers", broker.bootstrap_servers)
        rows = reader.option("startingOffsets", "earliest").load()
        known["rows"] = rows.selectExpr("string(value) as id")
        run(writing)
        (query,) = spark.streams.active
        query.processAllAvailable()
        query.stop()
        known["servers"] = broker.bootstrap_servers
        run(twice)
        kinds = spark.createDataFrame([("paid", "1"), ("open", "2")], "kind string, value string")
        known["write"](kinds, 0)
        run(schemas)
        shown = capfd.readouterr().out
        assert "|  1|  2.5|" in shown  # Spark's tasks write beside each other: any offset
        assert "|  2|  0.5|" in shown
        with broker.consumer("orders", value=str) as consumer:
            found = [record.value for record in consumer.take(9)]
    assert sorted(found[6:]) == ["1", "2", '{"id":"7"}']
