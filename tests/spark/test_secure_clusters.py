"""Spark, SQL, Streams and Connect with a secured cluster (SASL_SSL)."""

from __future__ import annotations

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.testing import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PASSWORD = "hunter2;with=signs"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {"group.initial.rebalance.delay.ms": "0"}
    with LocalCluster(config=config, security="sasl_ssl", users={"alice": PASSWORD}) as found:
        yield found


def kafka_settings(cluster: LocalCluster, password: str = PASSWORD) -> dict[str, str]:
    """By Kafka's names, as an operator writes them."""
    return {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{MODULE} required username="alice" password="{password}";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": cluster.client_settings()["ssl.ca.location"],
    }


def options(cluster: LocalCluster, password: str = PASSWORD) -> dict[str, str]:
    settings = kafka_settings(cluster, password)
    found = {f"kafka.{name}": value for name, value in settings.items()}
    return {"kafka.bootstrap.servers": cluster.bootstrap_servers, **found}


def until(found: Callable[[], Any], timeout_s: float = 240.0) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (value := found()):
        assert time.monotonic() < deadline, "the condition was not met in time"
        time.sleep(0.1)
    return value


def values(cluster: LocalCluster, topic: str, count: int) -> list[str]:
    with cluster.consumer(topic, value=str, auto_offset_reset="earliest") as consumer:
        return [record.value or "" for record in consumer.take(count, 120)]


def test_source_and_sink_work_and_hide_their_secrets(
    spark: SparkSession,
    cluster: LocalCluster,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    rows = spark.range(5).selectExpr("cast(id as string) value")
    rows.write.format("ottla").mode("append").options(**options(cluster), topic="door").save()
    reader = spark.readStream.format("ottla").options(**options(cluster), subscribe="door")
    frame = reader.option("startingOffsets", "earliest").load().select("value")
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        frame.explain(extended=True)
    writer = frame.writeStream.format("ottla").options(**options(cluster), topic="copy")
    writer = writer.option("checkpointLocation", str(tmp_path))
    query = writer.trigger(availableNow=True).start()  # exactly once: transactions
    try:
        assert query.awaitTermination(240)
        with contextlib.redirect_stdout(shown):
            query.explain(extended=True)
        shown.write(json.dumps([str(progress) for progress in query.recentProgress]))
    finally:
        query.stop()
    assert sorted(values(cluster, "copy", 5)) == ["0", "1", "2", "3", "4"]
    output = capfd.readouterr()
    for text in (shown.getvalue(), caplog.text, output.out, output.err):
        assert PASSWORD not in text
    assert "kafka.sasl.jaas.config=*********(redacted)" in shown.getvalue()


def test_a_failure_names_the_user_and_never_the_password(
    spark: SparkSession, cluster: LocalCluster
) -> None:
    wrong = options(cluster, "not-my-secret")
    with pytest.raises(Exception, match="authentication as User:alice by PLAIN failed") as caught:
        spark.read.format("ottla").options(**wrong, subscribe="door").load().collect()
    assert "not-my-secret" not in str(caught.value)
    missing = {**options(cluster), "kafka.ssl.truststore.location": "/no/such.pem"}
    with pytest.raises(Exception, match=r"/no/such.pem can't be used on .*: No such file"):
        spark.read.format("ottla").options(**missing, subscribe="door").load().collect()


def test_sql_runs_a_query(spark: SparkSession, cluster: LocalCluster, tmp_path: Path) -> None:
    from ottla.sql.engine.engine import Engine
    from ottla.sql.ksql_config import KsqlConfig
    from ottla.sql.run.query_executor import QueryExecutor

    given = {f"ksql.streams.{name}": value for name, value in kafka_settings(cluster).items()}
    settings = KsqlConfig(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "ksql.streams.state.dir": str(tmp_path),
            "ksql.service.id": "door_",
            "auto.offset.reset": "earliest",
            **given,
        }
    )
    engine = Engine(settings, QueryExecutor(settings, lambda: spark))
    engine.start()
    try:
        source = "KAFKA_TOPIC='numbers', VALUE_FORMAT='JSON', PARTITIONS=1"
        engine.execute(f"CREATE STREAM numbers (n INT) WITH ({source});")
        engine.execute("CREATE STREAM evens AS SELECT n FROM numbers WHERE n % 2 = 0;")
        engine.execute("INSERT INTO numbers (n) VALUES (1); INSERT INTO numbers (n) VALUES (2);")
        assert values(cluster, "EVENS", 1) == ['{"N":2}']
        shown = json.dumps(engine.execute("SHOW PROPERTIES;"))
        assert PASSWORD not in shown
    finally:
        engine.close()


def test_streams_run_an_application(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    from ottla.streams import String, Topology
    from ottla.streams.run.application import Application

    topology = Topology(key=String(), value=String())
    topology.stream("words").map_values(str.upper).to("shouted")
    cluster.create_topic("words", 1)
    cluster.create_topic("shouted", 1)
    with cluster.producer(value=str) as producer:
        producer.send("words", "hello")
    config = {f"producer.{name}": value for name, value in kafka_settings(cluster).items()}
    application = Application(
        topology,
        application_id="door-words",
        bootstrap_servers=cluster.bootstrap_servers,
        state_dir=tmp_path,
        spark=lambda: spark,
        config=config,
    )
    application.start()
    try:
        assert values(cluster, "shouted", 1) == ["HELLO"]
    finally:
        application.close()


def test_connect_runs_a_connector(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    from ottla.connect.run.connect_worker import ConnectWorker

    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    text = "org.apache.kafka.connect.storage.StringConverter"
    settings = kafka_settings(cluster)
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "door-connect",
        "listeners": "http://127.0.0.1:0",
        "key.converter": text,
        "value.converter": text,
        "exactly.once.source.support": "enabled",
        **settings,
        **{f"producer.{name}": value for name, value in settings.items()},
    }
    config = {
        "name": "lines",
        "connector.class": "FileStreamSource",
        "file": str(lines),
        "topic": "lines",
        "tasks.max": "1",
    }
    with ConnectWorker(properties, spark=lambda: spark) as worker:
        until(lambda: worker.herder.ready and worker.herder.view.stable)
        worker.requests.put_config("lines", config)
        assert values(cluster, "lines", 2) == ["one", "two"]
