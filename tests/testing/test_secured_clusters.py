"""LocalCluster(security=...): secured brokers, for tests of other projects."""

from __future__ import annotations

import time

import pytest

from ottla.client import Producer
from ottla.client.protocol.connection import BrokerConnection
from ottla.client.topics import TopicDescription
from ottla.errors import ErrorCode, KafkaError
from ottla.testing import LocalCluster

USERS = {"alice": "alice-secret", "bob": "bob-secret"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:alice",
}


@pytest.mark.parametrize("security", ["ssl", "sasl_plaintext", "sasl_ssl"])
def test_clients_of_a_secured_cluster_authenticate(security: str) -> None:
    with LocalCluster(security=security, users=USERS) as cluster:
        cluster.create_topic("orders")
        with cluster.producer(value=str) as producer:
            producer.send("orders", "one beer").result()
        with cluster.consumer("orders", group="g", value=str) as consumer:
            assert next(iter(consumer)).value == "one beer"
        line = BrokerConnection(
            "127.0.0.1", cluster.port, settings=cluster.client_settings("bob"), timeout_s=10
        )
        line.close()


def test_clients_without_credentials_are_refused() -> None:
    with LocalCluster(security="sasl_ssl", users=USERS) as cluster:
        right = cluster.client_settings("alice")
        for change, code in (
            ({"sasl.password": "bob-secret"}, ErrorCode.SASL_AUTHENTICATION_FAILED),
            ({"security.protocol": "PLAINTEXT"}, ErrorCode.NETWORK_EXCEPTION),
            ({"ssl.ca.location": "/etc/ssl/certs/ca-certificates.crt"}, None),
        ):
            with pytest.raises(KafkaError) as caught:
                BrokerConnection(
                    "127.0.0.1", cluster.port, settings={**right, **change}, timeout_s=10
                )
            assert code is None or caught.value.code is code
        settings = {**right, "sasl.password": "wrong", "message.timeout.ms": 3000}
        with (
            Producer[None, str](
                cluster.bootstrap_servers, value=str, settings=settings
            ) as producer,
            pytest.raises(KafkaError),
        ):
            producer.send("orders", "one beer").result()


@pytest.mark.zookeeper
@pytest.mark.timeout(240)
def test_a_cluster_of_processes_speaks_over_sasl_ssl_only() -> None:
    """Replication, forwarding to the controller, coordinators and transactions between brokers."""
    with LocalCluster(3, process=True, security="sasl_ssl", users=USERS) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        with (
            cluster.producer(
                value=str, key=str, delivery="exactly_once", transactional_id="t"
            ) as producer,
            producer.transaction(),
        ):
            for number in range(30):
                producer.send("orders", str(number), key=str(number))
        with cluster.consumer("orders", group="g", value=str) as consumer:
            values = {next(iter(consumer)).value for _ in range(30)}
            assert values == {str(number) for number in range(30)}
            consumer.commit()
        cluster.kill(0)
        with cluster.producer(value=str) as producer:
            producer.send("orders", "after").result()
        cluster.start_broker(0)
        with cluster.admin() as admin:
            topic = admin.topics.describe("orders")["orders"]
            assert isinstance(topic, TopicDescription)
            assert all(len(partition.isr) >= 2 for partition in topic.partitions)


def test_brokers_with_an_authorizer_let_each_other_do_their_work() -> None:
    with LocalCluster(3, security="sasl_ssl", users=USERS, config=AUTHORIZER) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        with cluster.producer(value=str) as producer:
            producer.send("orders", "one beer").result()
        with cluster.consumer("orders", group="g", value=str) as consumer:
            assert next(iter(consumer)).value == "one beer"
        bob = {**cluster.client_settings("bob"), "message.timeout.ms": 5000}
        with (
            Producer[None, str](cluster.bootstrap_servers, value=str, settings=bob) as producer,
            pytest.raises(KafkaError) as caught,
        ):
            producer.send("orders", "water").result()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_fatal_error_during_close_is_not_raised(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """bob may not have a producer id: librdkafka reports that as fatal to its next call."""
    with LocalCluster(security="sasl_plaintext", users=USERS, config=AUTHORIZER) as cluster:
        producer = Producer[None, str](
            cluster.bootstrap_servers, value=str, settings=cluster.client_settings("bob")
        )
        said = ""
        while "FATAL" not in said:  # on librdkafka's own connection: the error waits for a poll
            said += capfd.readouterr().err
            time.sleep(0.05)
        monkeypatch.setattr(producer, "flush", lambda _timeout_s: None)  # a poll would raise it
        producer.close()
