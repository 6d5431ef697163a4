"""Users and ACLs through librdkafka, kafka-python, and Kafka's own tools."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from compat_brokers import SHORT_LIVED, Broker, free_port, kafka_jars
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.admin import KafkaAdminClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = (
    f'{MODULE} required username="admin" password="admin-secret" user_admin="admin-secret"'
    ' user_alice="alice-secret";'
)
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    made = Broker(tmp_path_factory.mktemp("access") / "broker")
    oauth = free_port()
    listeners = f"SASL_PLAINTEXT://127.0.0.1:{made.port},OAUTH://127.0.0.1:{oauth}"
    made.settings |= {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT,OAUTH:SASL_PLAINTEXT",
        "inter.broker.listener.name": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.ottla.sasl.oauthbearer.unsecured": "true",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin",
        "delegation.token.secret.key": "a secret of all brokers",
    }
    made.oauth_port = oauth  # type: ignore[attr-defined]
    made.start()
    yield made
    assert made.stop() == 0, made.log_tail()


def settings(
    broker: Broker, user: str, password: str | None = None, mechanism: str = "PLAIN", **more: Any
) -> dict[str, Any]:
    return {
        "bootstrap.servers": f"127.0.0.1:{broker.port}",
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password or f"{user}-secret",
        **more,
    }


def binding(name: str, operation: AclOperation, user: str = "alice", **more: Any) -> AclBinding:
    kind = more.get("kind", ResourceType.TOPIC)
    pattern = more.get("pattern", ResourcePatternType.LITERAL)
    allow = AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{user}", "*", operation, allow)


def done(futures: dict[Any, Any]) -> list[Any]:
    return [future.result(PATIENCE_S) for future in futures.values()]


def sent(broker: Broker, topic: str, **config: Any) -> str | None:
    """The error of one message, if it had one."""
    errors: list[Any] = []
    producer = confluent_kafka.Producer(config or settings(broker, "alice"))
    producer.produce(topic, "v", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(PATIENCE_S) == 0
    return None if errors[0] is None else str(errors[0].name())


def test_librdkafka_creates_acls_and_is_subject_to_them(broker: Broker) -> None:
    admin = AdminClient(settings(broker, "admin"))
    topic = "guarded"
    (made,) = admin.create_topics([confluent_kafka.admin.NewTopic(topic, 1, 1)]).values()
    made.result(PATIENCE_S)
    assert sent(broker, topic) == "TOPIC_AUTHORIZATION_FAILED"
    rules = [
        binding(topic, AclOperation.WRITE),
        binding("guard", AclOperation.READ, pattern=ResourcePatternType.PREFIXED),
        binding("readers", AclOperation.READ, kind=ResourceType.GROUP),
    ]
    done(admin.create_acls(rules))
    everything = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY,
        AclPermissionType.ANY,
    )  # fmt: skip
    assert set(admin.describe_acls(everything).result(PATIENCE_S)) == set(rules)
    assert sent(broker, topic) is None
    consumer = confluent_kafka.Consumer(
        settings(broker, "alice", **{"group.id": "readers", "auto.offset.reset": "earliest"})
    )
    consumer.subscribe([topic])
    message = consumer.poll(PATIENCE_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == b"v"
    (deleted,) = done(admin.delete_acls([everything]))
    assert set(deleted) == set(rules)
    assert sent(broker, topic) == "TOPIC_AUTHORIZATION_FAILED"


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_librdkafka_creates_a_user_that_then_logs_in(broker: Broker, mechanism: str) -> None:
    admin = AdminClient(settings(broker, "admin"))
    user = f"carol-{mechanism[-3:]}"
    kind = ScramMechanism[mechanism.replace("-", "_")]
    info = ScramCredentialInfo(kind, 8192)
    done(admin.alter_user_scram_credentials([UserScramCredentialUpsertion(user, info, b"pw")]))
    described = admin.describe_user_scram_credentials([user])[user].result(PATIENCE_S)
    (reply,) = described.scram_credential_infos
    assert (reply.mechanism, reply.iterations) == (kind, 8192)
    topic = f"of-{user}"
    rules = [binding(topic, entry, user) for entry in (AclOperation.WRITE, AclOperation.CREATE)]
    done(admin.create_acls(rules))
    assert sent(broker, topic, **settings(broker, user, "pw", mechanism)) is None
    wrong = confluent_kafka.Producer(settings(broker, user, "wrong", mechanism))
    with pytest.raises(confluent_kafka.KafkaException):
        wrong.list_topics(timeout=5)


def test_librdkafka_with_an_unsecured_token(broker: Broker) -> None:
    admin = AdminClient(settings(broker, "admin"))
    done(admin.create_acls([binding("by-token", AclOperation.ALL, "tokenbearer")]))
    config = {
        "bootstrap.servers": f"127.0.0.1:{broker.oauth_port}",  # type: ignore[attr-defined]
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=tokenbearer",
    }
    assert sent(broker, "by-token", **config) is None
    assert sent(broker, "guarded", **config) == "TOPIC_AUTHORIZATION_FAILED"


def test_kafka_python_lists_rules(broker: Broker) -> None:
    from kafka.admin import (
        ACLFilter,
        ACLOperation,
        ACLPermissionType,
        ACLResourcePatternType,
        ResourcePatternFilter,
    )
    from kafka.admin import ResourceType as Kind

    admin = AdminClient(settings(broker, "admin"))
    done(admin.create_acls([binding("listed", AclOperation.ALTER)]))
    client = KafkaAdminClient(
        bootstrap_servers=f"127.0.0.1:{broker.port}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password="admin-secret",
    )
    pattern = ResourcePatternFilter(Kind.TOPIC, "listed", ACLResourcePatternType.ANY)
    acls, error = client.describe_acls(
        ACLFilter("User:alice", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)
    )
    client.close()
    assert error.errno == 0
    assert [(acl.principal, acl.operation.name) for acl in acls] == [("User:alice", "ALTER")]


@pytest.mark.maven
@pytest.mark.timeout(1000)
def test_kafkas_own_tools_for_acls_users_and_tokens(broker: Broker, tmp_path: Path) -> None:
    config = tmp_path / "admin.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="admin" password="admin-secret";\n'
    )
    where = ("--bootstrap-server", f"127.0.0.1:{broker.port}", "--command-config", str(config))
    acls = ("org.apache.kafka.tools.AclCommand", *where)
    topic = ("--topic", "java-topic")
    _java(*acls, "--add", "--allow-principal", "User:bob", "--producer", *topic)
    _java(*acls, "--add", "--deny-principal", "User:eve", "--operation", "Read", *topic)
    listed = _java(*acls, "--list", *topic)
    for words in ("User:bob", "operation=WRITE", "operation=CREATE", "User:eve", "DENY"):
        assert words in listed
    _java(*acls, "--remove", "--force", *topic)
    assert "User:bob" not in _java(*acls, "--list", *topic)
    configs = ("kafka.admin.ConfigCommand", *where, "--entity-type", "users")
    named = (*configs, "--entity-name", "dave")
    _java(*named, "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=pw]")
    assert "SCRAM-SHA-256=iterations=8192" in _java(*named, "--describe")
    assert sent(broker, "x", **settings(broker, "dave", "pw", "SCRAM-SHA-256")) is not None
    tokens = ("org.apache.kafka.tools.DelegationTokenCommand", *where)
    created = _java(
        *tokens, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:bob"
    )
    assert "User:admin" in created
    words = next(line for line in created.splitlines() if "User:admin" in line).split()
    token_id, password = words[0], words[1]
    describe = (*tokens, "--describe", "--owner-principal", "User:admin")
    assert token_id in _java(*describe)
    by_token = tmp_path / "token.properties"
    by_token.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-256\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required"
        f' username="{token_id}" password="{password}" tokenauth="true";\n'
    )
    as_owner = ("--bootstrap-server", f"127.0.0.1:{broker.port}", "--command-config", str(by_token))
    _java(*acls, "--add", "--allow-principal", "User:bob", "--operation", "Read", *topic)
    assert "Current ACLs" in _java("org.apache.kafka.tools.AclCommand", *as_owner, "--list")
    _java(*tokens, "--renew", "--renew-time-period", "-1", "--hmac", password)
    _java(*tokens, "--expire", "--expiry-time-period", "-1", "--hmac", password)
    assert token_id not in _java(*describe)


def _java(*command: str) -> str:
    done = subprocess.run(
        ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{kafka_jars()}/*", *command],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
