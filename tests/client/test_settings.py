from __future__ import annotations

import logging
import re

import confluent_kafka
import pytest

from ottla.client.delivery import CONSUMER, PRODUCER, Delivery, delivery_of
from ottla.client.kafka_errors import kafka_error_of
from ottla.client.settings import ConnectionErrors, client_with, librdkafka_settings
from ottla.errors import ErrorCode, KafkaError


def test_names_of_javas_clients_become_librdkafkas() -> None:
    translated = librdkafka_settings(
        {
            "acks": "all",
            "fetch.max.wait.ms": 100,
            "key.serializer": "org.apache.kafka.common.serialization.StringSerializer",
            "partition.assignment.strategy": (
                "org.apache.kafka.clients.consumer.RangeAssignor,"
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
            ),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required"
                ' username="alice" password="secret";'
            ),
        }
    )
    assert translated == {
        "acks": "all",
        "fetch.wait.max.ms": 100,
        "partition.assignment.strategy": "range,cooperative-sticky",
        "security.protocol": "sasl_plaintext",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "secret",
    }


def test_an_unknown_setting_is_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"bootstrap.servers": "localhost:1", "no.such.thing": 1, "log_level": 0}
    with caplog.at_level(logging.WARNING, "ottla.client"):
        producer = client_with(confluent_kafka.Producer, settings)
    assert isinstance(producer, confluent_kafka.Producer)
    assert "no.such.thing" in caplog.text


TRANSPORT = confluent_kafka.KafkaError._TRANSPORT
ALL_DOWN = confluent_kafka.KafkaError._ALL_BROKERS_DOWN


def test_a_wrong_value_is_an_invalid_config() -> None:
    with pytest.raises(KafkaError, match="compression") as caught:
        client_with(confluent_kafka.Producer, {"compression.type": "zip"})
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("name", "value"),
    [("linger.ms", -5), ("linger.ms", "soon"), ("acks", 2000), ("delivery.timeout.ms", "never")],
)
def test_a_wrong_value_is_reported_by_the_name_that_was_set(name: str, value: str | int) -> None:
    """librdkafka says queue.buffering.max.ms, request.required.acks, message.timeout.ms."""
    with pytest.raises(KafkaError, match=f'property "{re.escape(name)}"'):
        client_with(confluent_kafka.Producer, {name: value})


def test_a_connection_error_is_logged_once_a_while(caplog: pytest.LogCaptureFixture) -> None:
    report = ConnectionErrors({}).on_error
    down = confluent_kafka.KafkaError(
        confluent_kafka.KafkaError._TRANSPORT, "b: refused (after 3ms in state CONNECT)"
    )
    with caplog.at_level(logging.WARNING, "ottla.client"):
        for _ in range(5):
            report(down)
    assert caplog.messages == ["b: refused"]


def test_a_bootstrap_server_that_is_down_explains_a_timeout_only_if_none_answers() -> None:
    errors = ConnectionErrors({})
    down = "Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)"
    errors.on_error(confluent_kafka.KafkaError(TRANSPORT, f"a:1/bootstrap: {down}"))
    assert errors.reason() == ""
    errors.on_error(confluent_kafka.KafkaError(TRANSPORT, f"b:1/2: {down}"))  # a leader, perhaps
    assert errors.reason() == ": cannot reach b:1: Connection refused"
    errors.on_error(confluent_kafka.KafkaError(ALL_DOWN, "2/2 brokers are down"))
    errors.on_error(confluent_kafka.KafkaError(TRANSPORT, f"a:1/bootstrap: {down}"))
    assert errors.reason() == ": cannot reach a:1: Connection refused"


@pytest.mark.parametrize(
    ("code", "ours"),
    [
        (confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS, ErrorCode.TOPIC_ALREADY_EXISTS),
        (confluent_kafka.KafkaError._MSG_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
        (confluent_kafka.KafkaError._ALL_BROKERS_DOWN, ErrorCode.BROKER_NOT_AVAILABLE),
        (confluent_kafka.KafkaError._UNKNOWN_TOPIC, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (confluent_kafka.KafkaError._BAD_MSG, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_librdkafkas_errors_have_kafkas_codes(code: int, ours: ErrorCode) -> None:
    error = confluent_kafka.KafkaError(code, "because")
    assert kafka_error_of(error).code is ours
    assert str(kafka_error_of(confluent_kafka.KafkaException(error))) == "because"


def test_each_delivery_mode_sets_both_clients() -> None:
    assert PRODUCER[Delivery.AT_MOST_ONCE]["acks"] == 0
    assert PRODUCER[Delivery.AT_LEAST_ONCE]["enable.idempotence"] is True
    assert CONSUMER[Delivery.EXACTLY_ONCE]["isolation.level"] == "read_committed"
    assert all(entry["enable.auto.offset.store"] is False for entry in CONSUMER.values())


def test_an_unknown_delivery_mode_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="at_most_once"):
        delivery_of("twice")


def test_a_refused_login_is_raised_once_and_in_one_sentence() -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    errors = ConnectionErrors(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{module} required username="alice" password="hunter2";',
        }
    )
    refused = confluent_kafka.KafkaError(
        confluent_kafka.KafkaError._AUTHENTICATION,
        "sasl_ssl://b:9093/bootstrap: SASL authentication error: Authentication failed: Invalid"
        " username or password (after 5ms in state AUTH_REQ)",
    )
    errors.check()
    errors.on_error(refused)
    with pytest.raises(KafkaError) as caught:
        errors.check()
    assert str(caught.value) == "authentication as User:alice by PLAIN failed at b:9093"
    errors.check()


def test_a_token_that_can_not_be_read_is_named_at_once() -> None:
    """librdkafka would wait ten seconds and then report a missing token."""
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "file:///nowhere/client.jwt",
    }
    with pytest.raises(KafkaError, match=r"/nowhere/client\.jwt can't be read"):
        client_with(
            confluent_kafka.Producer, {"bootstrap.servers": "x:1", **librdkafka_settings(settings)}
        )
