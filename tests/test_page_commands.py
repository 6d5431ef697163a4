"""The commands of how-to pages, typed literally; only ports differ, which another server may have.

`test_quickstarts.py` types the quickstarts, `cli/test_documented_commands.py` parses all commands.
`page_readings.py` says which commands are typed, and why some are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import page_readings as readings
from ottla.testing.ports import reserve_ports_in_a_row
from page_reader import PageReader

PORTS = (
    *(2181, 2191, 8081, 8083, 8088, 8089, 8443),
    *(9092, 9093, 9094, 9095, 9096, 9292, 9293, 9294, 9404),
)
"""Ours are in a row, because the brokers of a cluster have ports in a row."""
SHELL = {
    "OTTLA_BOOTSTRAP_SERVER": "localhost:9092",
    "OTTLA_SCHEMA_REGISTRY_URL": "http://localhost:8081",
    "OTTLA_CONNECT_URL": "http://localhost:8083",
    "OTTLA_SQL_SERVER": "http://localhost:8088",
    "B": "--bootstrap-server localhost:9092",
}
SERVE = "ottla serve"
TRANSACTIONS = """
python - <<'END'
import os

from ottla.client import Consumer, Producer

servers = "localhost:9092"
with Producer(servers, delivery="exactly_once", transactional_id="tx-done") as producer:
    with producer.transaction():
        producer.send("docs", "one")
with Consumer(servers, "docs", group="readers", auto_offset_reset="earliest") as consumer:
    list(consumer.take(1))
opened = []
for name in ("billing-1", "tx-open"):
    producer = Producer(servers, delivery="exactly_once", transactional_id=name)
    opened.append(producer.transaction())
    opened[-1].__enter__()
    producer.send("docs", "two")
    producer.flush()
os._exit(0)  # a producer that dies: its transaction stays open
END
"""
"""What cli.md shows transactions and a group of."""
LOGINS = """bootstrap.servers=localhost:9092
ssl.keystore.location=certs/broker.pem
authentication.method=BASIC
ottla.authentication.users.file=users.properties
"""


@contextmanager
def reader(folder: Path) -> Iterator[PageReader]:
    with ExitStack() as reserved:
        row = [reserved.enter_context(port) for port in reserve_ports_in_a_row(len(PORTS))]
        ports = {str(port): ours.getsockname()[1] for port, ours in zip(PORTS, row, strict=True)}
    somebody = PageReader(folder, ports, SHELL)
    try:
        yield somebody
    finally:
        somebody.close()


@pytest.mark.parametrize("page", readings.PAGES)
def test_every_command_is_run_or_has_a_reason(page: str) -> None:
    assert readings.unread(page) == []


def test_every_reason_is_needed() -> None:
    assert readings.useless_reasons() == []


def test_every_reading_is_read() -> None:
    tests = Path(__file__).parent
    text = "".join(
        (tests / name).read_text(encoding="utf-8")
        for name in ("test_page_commands.py", "compat/test_kerberos.py")
    )
    assert [name for name in readings.READINGS if f"readings.{name})" not in text] == []


def test_the_commands_of_readme(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        assert somebody.read(readings.README) == 5
        failed, printed = somebody.run("ottla topics list")
        assert not failed, printed
        assert {"greetings", "my-topic"} <= set(printed.split())


def test_workers_of_a_share_group(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        assert somebody.read(readings.SHARE_GROUPS) == 18


def test_quotas(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        assert somebody.read(readings.QUOTAS) == 10


def test_the_registry(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.REGISTRY) > 10
    (tmp_path / "validation").mkdir()
    with reader(tmp_path / "validation") as somebody:
        assert somebody.read(readings.VALIDATED_TOPIC) == 3


def test_users_and_rights_of_the_registry(tmp_path: Path) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    rights = f"authorizer.class.name={authorizer} --override super.users=User:ANONYMOUS"
    with reader(tmp_path) as somebody:
        somebody.run_server(f"{SERVE} --override {rights}")
        assert somebody.read(readings.REGISTRY_LOGIN) == 8
        assert somebody.read(readings.REGISTRY_USERS) == 12


def test_a_closed_cluster_from_nothing(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.CLOSED_CLUSTER) > 15
        assert somebody.read(readings.USERS_AND_ACLS) == 10


@pytest.mark.zookeeper
def test_three_closed_brokers(tmp_path: Path) -> None:
    config = "--command-config admin.properties"
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.FILES_OF_CLOSED_BROKERS) == 2
        assert somebody.read(readings.THREE_BROKERS) == 4
        failed, printed = somebody.run(f"ottla topics create orders {config}")
        assert not failed, printed
        failed, printed = somebody.run(f"echo one beer | ottla produce orders {config}")
        assert not failed, printed  # followers fetch it, or acks=all would fail
        failed, printed = somebody.run(f"ottla topics describe orders {config}")
        (in_sync,) = re.findall(r" [1-3]   [1-3,]{5} +([1-3,]{5}) ", printed)
        assert sorted(in_sync.split(",")) == ["1", "2", "3"], printed


def test_tls_in_one_minute(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.TLS) == 5


def test_metrics_and_a_compacted_topic(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.METRICS) == 2
        assert somebody.read(readings.COMPACTED_TOPICS) == 3


def test_the_command_line(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        failed, printed = somebody.run(TRANSACTIONS)
        assert not failed, printed
        assert somebody.read(readings.CLI) > 15
        assert somebody.read(readings.COMPLETION) == 1
        assert somebody.read(readings.BROKER_IN_A_TEST) == 1


@pytest.mark.zookeeper
def test_a_cluster_is_tried_and_grows(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.CLUSTER) == 6
        assert somebody.read(readings.OPERATIONS) == 10


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_connectors(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        assert somebody.read(readings.CONNECT) > 15
        for verb in ("stop lines", "offsets lines --reset", "delete lines"):
            failed, printed = somebody.run(f"ottla connect {verb}")
            assert not failed, printed  # the page about SQL copies the file again
        somebody.run_server("ottla sql-server")
        assert somebody.read(readings.SQL_CONNECTORS) == 9


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_logins_of_rest_servers(tmp_path: Path) -> None:
    (tmp_path / "worker.properties").write_text(
        f"{LOGINS}group.id=workers\nlisteners=https://127.0.0.1:8443\n", encoding="utf-8"
    )
    (tmp_path / "sql-server.properties").write_text(
        f"{LOGINS}listeners=https://127.0.0.1:8089\n", encoding="utf-8"
    )
    (tmp_path / "rest.properties").write_text("ssl.truststore.location=ca.pem\n", encoding="utf-8")
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        failed, printed = somebody.run("ottla certs ./certs && cp certs/ca.pem ca.pem")
        assert not failed, printed
        (tmp_path / "users.properties").write_text("", encoding="utf-8")
        somebody.run_server("ottla connect worker worker.properties")
        assert somebody.read(readings.CONNECT_LOGINS) == 4
        somebody.run_server("ottla sql-server sql-server.properties")
        assert somebody.read(readings.SQL_LOGINS) == 3


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_headless_sql_server(tmp_path: Path) -> None:
    stream = "CREATE STREAM drinks (name STRING) WITH"
    (tmp_path / "pipeline.sql").write_text(
        f"{stream} (KAFKA_TOPIC='drinks', VALUE_FORMAT='JSON', PARTITIONS=1);\n", encoding="utf-8"
    )
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        assert somebody.read(readings.HEADLESS) == 1
        failed, printed = somebody.run("until ottla topics list | grep drinks; do sleep 0.1; done")
        assert not failed, printed


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_sql(tmp_path: Path) -> None:
    (tmp_path / "pipeline.sql").write_text("SHOW STREAMS;\n", encoding="utf-8")
    with reader(tmp_path) as somebody:
        somebody.run_server(f"{SERVE} --registry")
        assert somebody.read(readings.SQL_SERVER) == 4
        assert somebody.read(readings.SQL) > 25


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_stream_job(tmp_path: Path) -> None:
    with reader(tmp_path) as somebody:
        somebody.run_server(SERVE)
        assert somebody.read(readings.STREAMS) == 8
