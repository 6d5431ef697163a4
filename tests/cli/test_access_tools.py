"""kafka-acls, `ottla acls` and `ottla users`, with a broker that has users and an authorizer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.app import main as ottla
from ottla.cli.kafka.acls import main as kafka_acls
from ottla.client.protocol.connection import BrokerConnection
from ottla.config import ServerConfig
from ottla.errors import KafkaError
from ottla.testing.broker_process import BrokerProcess
from ottla.testing.ports import reserve_port

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "admin-secret"


class SecuredBroker:
    """A broker whose only user was created before its first start."""

    def __init__(self, folder: Path, port: int) -> None:
        self.port = port
        self.properties = {
            "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
            "security.inter.broker.protocol": "SASL_PLAINTEXT",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{MODULE} required username="admin" password="{PASSWORD}";',
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:admin",
            "log.dirs": str(folder / "data"),
        }
        self.file = folder / "server.properties"
        self.file.write_text("".join(f"{k}={v}\n" for k, v in self.properties.items()))
        self.admin = folder / "admin.properties"
        self.admin.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
            f'sasl.jaas.config={MODULE} required username="admin" password="{PASSWORD}";\n'
        )
        ServerConfig(self.properties)

    @property
    def where(self) -> tuple[str, ...]:
        address = f"127.0.0.1:{self.port}"
        return ("--bootstrap-server", address, "--command-config", str(self.admin))

    def settings(self, user: str, password: str) -> dict[str, str]:
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def lets_in(self, user: str, password: str) -> bool:
        try:
            BrokerConnection(
                "127.0.0.1", self.port, settings=self.settings(user, password), timeout_s=30
            ).close()
        except KafkaError:
            return False
        return True


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    with reserve_port() as reserved:
        made = SecuredBroker(tmp_path_factory.mktemp("access"), reserved.getsockname()[1])
        add = ("users", "add", "admin", "--password", PASSWORD, "--store", str(made.file))
        assert ottla([*add]) == 0
        broker = BrokerProcess(made.properties, made.port)
        broker._settings = made.settings("admin", PASSWORD)  # type: ignore[assignment]
        broker.start()
        yield made
        broker.stop()


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_a_first_user_can_be_created_before_the_first_start(
    secured: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert secured.lets_in("admin", PASSWORD)
    assert not secured.lets_in("admin", "wrong")
    assert ottla(["users", "list", "--store", str(secured.file)]) == 1  # the broker has it open
    capsys.readouterr()


def test_users_are_created_and_deleted(
    secured: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ottla(["users", "add", "alice", "--password", "a-secret", *secured.where]) == 0
    assert secured.lets_in("alice", "a-secret")
    capsys.readouterr()
    assert ottla(["users", "list", "--json", *secured.where]) == 0
    assert json.loads(said(capsys)) == {
        "admin": {"SCRAM-SHA-512": 8192},
        "alice": {"SCRAM-SHA-512": 8192},
    }
    assert ottla(["users", "remove", "alice", *secured.where]) == 0
    assert not secured.lets_in("alice", "a-secret")
    assert ottla(["users", "remove", "alice", *secured.where]) == 1


def test_kafka_acls_adds_lists_and_removes(
    secured: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """The output is that of Kafka's own tool."""
    topic = ("--topic", "t")
    assert (
        kafka_acls([*secured.where, "--add", "--allow-principal", "User:bob", "--producer", *topic])
        == 0
    )
    pattern = "`ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`"
    rule = "(principal=User:bob, host=*, operation={}, permissionType=ALLOW)"
    assert said(capsys) == (
        f"Adding ACLs for resource {pattern}: \n"
        f" \t{rule.format('WRITE')}\n\t{rule.format('DESCRIBE')}\n\t{rule.format('CREATE')}\n\n"
    )
    assert kafka_acls([*secured.where, "--list", *topic]) == 0
    listed = said(capsys)
    assert listed.startswith(f"Current ACLs for resource {pattern}:\n\t(principal=User:bob")
    assert listed.endswith("\n\n")
    consumer = ("--consumer", *topic, "--group", "g", "--allow-host", "10.0.0.1")
    assert kafka_acls([*secured.where, "--add", "--allow-principal", "User:eve", *consumer]) == 0
    capsys.readouterr()
    assert kafka_acls([*secured.where, "--list", "--principal", "User:eve"]) == 0
    listed = said(capsys)
    assert "ACLs for principal `User:eve`\n" in listed
    assert "resourceType=GROUP, name=g" in listed
    assert "User:bob" not in listed
    remove = ("--remove", "--force", "--topic", "t", "--group", "g")
    assert kafka_acls([*secured.where, *remove]) == 0
    capsys.readouterr()
    assert kafka_acls([*secured.where, "--list", *topic, "--group", "g"]) == 0
    assert said(capsys) == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--list", "--add"],
        ["--add", "--allow-principal", "User:a"],
        ["--add", "--topic", "t"],
        ["--add", "--topic", "t", "--allow-principal", "User:a", "--operation", "Dance"],
        ["--add", "--topic", "t", "--allow-principal", "User:a", "--resource-pattern-type", "any"],
        ["--add", "--consumer", "--topic", "t", "--allow-principal", "User:a"],
        ["--add", "--cluster", "--allow-principal", "nobody"],
    ],
)
def test_kafka_acls_refuses(
    secured: SecuredBroker, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert kafka_acls([*secured.where, *arguments]) == 1
    assert capsys.readouterr().err


def test_explain_says_why_a_user_is_allowed_or_denied(
    secured: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    ask = ("acls", "why", "carol", "write", "topic:orders-1", *secured.where)
    assert ottla([*ask]) == 1
    assert "denied: no ACL allows it" in said(capsys)
    assert ottla(["acls", "add", "carol", "WRITE", "topic:orders-*", *secured.where]) == 0
    capsys.readouterr()
    assert ottla([*ask]) == 0
    assert "allowed: ALLOW User:carol from * WRITE on TOPIC PREFIXED orders-" in said(capsys)
    assert ottla(["acls", "add", "*", "ALL", "topic:orders-1", "--deny", *secured.where]) == 0
    capsys.readouterr()
    assert ottla([*ask]) == 1
    assert "denied: DENY User:* from * ALL on TOPIC LITERAL orders-1" in said(capsys)
    assert ottla(["acls", "why", "admin", "WRITE", "topic:orders-1", *secured.where]) == 0
    assert "User:admin is one of super.users" in said(capsys)
    assert ottla(["acls", "list", "topic:orders-1", "--json", *secured.where]) == 0
    assert {rule["resource"] for rule in json.loads(said(capsys))} == {
        "topic:orders-*",
        "topic:orders-1",
    }
    assert ottla(["acls", "remove", "*", "ALL", "topic:orders-1", *secured.where]) == 0
    assert ottla(["acls", "remove", "*", "ALL", "topic:orders-1", *secured.where]) == 1
    assert ottla(["acls", "add", "x", "DANCE", "cluster", *secured.where]) == 1
    assert ottla(["acls", "add", "x", "READ", "orders", *secured.where]) == 1
