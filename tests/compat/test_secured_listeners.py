"""Third-party clients over TLS and SASL: librdkafka, kafka-python, aiokafka, Java's.

One broker with a listener of each protocol; the certificates are made here.
"""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest
from compat_brokers import SHORT_LIVED, Broker, free_port, kafka_jars
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.testing.certificates import CertificateAuthority

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = f'{MODULE} required username="b" password="bs" user_b="bs" user_alice="alice-secret";'
PROTOCOLS = ("SSL", "SASL_PLAINTEXT", "SASL_SSL")
MESSAGES = [f"message {number}" for number in range(20)]
PATIENCE_S = 60.0


class SecuredBroker:
    """The broker, its certificates, and where each protocol listens."""

    def __init__(self, directory: Path) -> None:
        self.authority = CertificateAuthority(directory / "certificates")
        own = self.authority.issue("broker")
        self.client = self.authority.issue("client", subject="/O=Org/OU=Team/CN=alice")
        self.ports = {protocol: free_port() for protocol in PROTOCOLS}
        self.broker = Broker(directory / "broker")
        named = {"PLAINTEXT": self.broker.port, **self.ports}
        listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in named.items())
        self.broker.settings |= {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "ssl.keystore.location": str(own.keystore),
            "ssl.truststore.location": str(self.authority.certificate),
            "ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "connections.max.reauth.ms": "4000",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": USERS,
            "listener.name.sasl_ssl.plain.sasl.jaas.config": USERS,
        }

    def bootstrap(self, protocol: str) -> str:
        return f"127.0.0.1:{self.ports[protocol]}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    made = SecuredBroker(tmp_path_factory.mktemp("secured"))
    made.broker.start()
    make_user(made)
    yield made
    assert made.broker.stop() == 0, made.broker.log_tail()


def make_user(secured: SecuredBroker) -> None:
    """carol, by KIP-554."""
    admin = AdminClient({"bootstrap.servers": secured.broker.bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        upsertion = UserScramCredentialUpsertion("carol", info, b"carol-secret")
        for future in admin.alter_user_scram_credentials([upsertion]).values():
            future.result(PATIENCE_S)


def librdkafka(secured: SecuredBroker, protocol: str, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": secured.bootstrap(protocol),
        "security.protocol": protocol,
        "ssl.ca.location": str(secured.authority.certificate),
        "ssl.certificate.location": str(secured.client.certificate),
        "ssl.key.location": str(secured.client.key),
        **(
            {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}
            if "SASL" in protocol
            else {}
        ),
        **more,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_librdkafka(secured: SecuredBroker, protocol: str) -> None:
    topic = f"librdkafka-{protocol}"
    producer = confluent_kafka.Producer(librdkafka(secured, protocol))
    for message in MESSAGES:
        producer.produce(topic, message)
    assert producer.flush(PATIENCE_S) == 0
    consumer = confluent_kafka.Consumer(
        librdkafka(secured, protocol, **{"group.id": topic, "auto.offset.reset": "earliest"})
    )
    consumer.subscribe([topic])
    try:
        assert sorted(_values(consumer, len(MESSAGES))) == sorted(MESSAGES)
    finally:
        consumer.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_scram(secured: SecuredBroker, mechanism: str, tmp_path: Path) -> None:
    who = {"sasl.mechanism": mechanism, "sasl.username": "carol", "sasl.password": "carol-secret"}
    producer = confluent_kafka.Producer(librdkafka(secured, "SASL_SSL", **who))
    producer.produce(mechanism, "by librdkafka")
    assert producer.flush(PATIENCE_S) == 0
    settings = {
        **kafka_python(secured, "SASL_SSL"),
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "carol",
        "sasl_plain_password": "carol-secret",
    }
    consumer = kafka.KafkaConsumer(
        mechanism,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        **settings,
    )
    assert next(consumer).value == b"by librdkafka"
    consumer.close()


@pytest.mark.maven
def test_scram_of_kafkas_own_tools(secured: SecuredBroker, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    config = tmp_path / "client.properties"
    config.write_text(
        "security.protocol=SASL_SSL\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.authority.certificate}\n"
        "sasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={module} required username="carol" password="carol-secret";\n'
    )
    where = ("--bootstrap-server", secured.bootstrap("SASL_SSL"), "--command-config", str(config))
    _java("org.apache.kafka.tools.TopicCommand", *where, "--create", "--topic", "by-carol")
    assert "by-carol" in _java("org.apache.kafka.tools.TopicCommand", *where, "--list")


def test_librdkafka_authenticates_again_before_its_session_ends(secured: SecuredBroker) -> None:
    """Sessions last 4 s: one connection serves for 10 s."""
    topic = "librdkafka-again"
    lost: list[str] = []
    settings = librdkafka(secured, "SASL_SSL", error_cb=lambda error: lost.append(str(error)))
    producer = confluent_kafka.Producer(settings)
    for number in range(50):
        producer.produce(topic, str(number))
        assert producer.flush(PATIENCE_S) == 0
        producer.poll(0.2)
    assert lost == []


@pytest.mark.parametrize(
    ("protocol", "change"),
    [
        ("SASL_SSL", {"sasl.password": "wrong"}),
        ("SASL_SSL", {"sasl.mechanism": "SCRAM-SHA-256"}),  # alice has no such credential
        ("SSL", {"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}),
        ("SASL_PLAINTEXT", {"security.protocol": "PLAINTEXT"}),
        ("SSL", {"security.protocol": "PLAINTEXT"}),
    ],
)
def test_librdkafka_is_refused(
    secured: SecuredBroker, protocol: str, change: dict[str, str]
) -> None:
    admin_client = confluent_kafka.Producer({**librdkafka(secured, protocol), **change})
    with pytest.raises(confluent_kafka.KafkaException):
        admin_client.list_topics(timeout=2)


def _values(consumer: confluent_kafka.Consumer, count: int) -> list[str]:
    values: list[str] = []
    while len(values) < count:
        message = consumer.poll(PATIENCE_S)
        assert message is not None, f"{len(values)} of {count} came"
        assert message.error() is None, message.error()
        values.append(message.value().decode())
    return values


def kafka_python(secured: SecuredBroker, protocol: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": secured.bootstrap(protocol),
        "security_protocol": protocol,
        "ssl_cafile": str(secured.authority.certificate),
        "ssl_certfile": str(secured.client.certificate),
        "ssl_keyfile": str(secured.client.key),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "alice-secret",
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafka_python(secured: SecuredBroker, protocol: str) -> None:
    topic = f"kafka-python-{protocol}"
    producer = kafka.KafkaProducer(**kafka_python(secured, protocol))
    for message in MESSAGES:
        producer.send(topic, message.encode())
    producer.flush(timeout=PATIENCE_S)
    producer.close()
    consumer = kafka.KafkaConsumer(
        topic,
        group_id=topic,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1000,
        **kafka_python(secured, protocol),
    )
    values = [next(consumer).value.decode() for _ in MESSAGES]
    consumer.close()
    assert sorted(values) == sorted(MESSAGES)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_aiokafka(secured: SecuredBroker, protocol: str) -> None:
    topic = f"aiokafka-{protocol}"

    async def main() -> list[str]:
        context = ssl.create_default_context(cafile=str(secured.authority.certificate))
        context.load_cert_chain(secured.client.certificate, secured.client.key)
        settings = {
            "bootstrap_servers": secured.bootstrap(protocol),
            "security_protocol": protocol,
            "ssl_context": context if protocol.endswith("SSL") else None,
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "alice",
            "sasl_plain_password": "alice-secret",
        }
        async with aiokafka.AIOKafkaProducer(**settings) as producer:
            for message in MESSAGES:
                await producer.send_and_wait(topic, message.encode())
        async with aiokafka.AIOKafkaConsumer(
            topic, group_id=topic, auto_offset_reset="earliest", **settings
        ) as consumer:
            return [(await consumer.getone()).value.decode() for _ in MESSAGES]

    assert sorted(asyncio.run(main())) == sorted(MESSAGES)


@pytest.mark.maven
@pytest.mark.timeout(240)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_kafkas_own_tools(secured: SecuredBroker, protocol: str, tmp_path: Path) -> None:
    topic = f"java-{protocol}"
    config = tmp_path / "client.properties"
    config.write_text(
        f"security.protocol={protocol}\n"
        "ssl.keystore.type=PEM\n"
        f"ssl.keystore.location={secured.client.keystore}\n"
        "ssl.truststore.type=PEM\n"
        f"ssl.truststore.location={secured.authority.certificate}\n"
        "sasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={MODULE} required username="alice" password="alice-secret";\n'
    )
    where = ("--bootstrap-server", secured.bootstrap(protocol), "--topic", topic)
    produce = ("org.apache.kafka.tools.ConsoleProducer", "--command-config", str(config))
    consume = ("org.apache.kafka.tools.consumer.ConsoleConsumer", "--command-config", str(config))
    _java(*produce, *where, text="\n".join(MESSAGES) + "\n")
    said = _java(*consume, *where, "--from-beginning", "--max-messages", str(len(MESSAGES)))
    assert sorted(said.splitlines()) == sorted(MESSAGES)


def _java(*command: str, text: str = "") -> str:
    done = subprocess.run(
        ["java", "-Xmx256M", *SHORT_LIVED, "-cp", f"{kafka_jars()}/*", *command],
        input=text,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
