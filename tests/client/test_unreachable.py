"""Clients of an address without a listener: they fail at once, and close when asked to."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, Final

import pytest

from ottla.client import Admin, Consumer, ErrorCode, KafkaError, Producer, ShareConsumer
from ottla.testing import LocalCluster
from ottla.testing.ports import reserve_port

WAIT_S: Final = 60.0
SOON_S: Final = 20.0  # on a busy machine; what it replaces took a minute


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address that refuses connections."""
    with closing(reserve_port()) as reserved:
        yield "{}:{}".format(*reserved.getsockname())


def logged(caplog: pytest.LogCaptureFixture, words: str) -> bool:
    return any(words in message for message in caplog.messages)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_producer_reports_an_unreachable_broker_before_sending(
    nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.client"), Producer(nobody):
        until(lambda: logged(caplog, f"cannot reach {nobody}: Connection refused"))
    assert not logged(caplog, "brokers are down"), "one error is logged as one line"


def test_a_consumer_reports_an_unreachable_broker_while_it_waits(
    nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ottla.client"), Consumer(nobody, "x") as consumer:
        until(lambda: consumer.poll(0.1) is None and logged(caplog, f"cannot reach {nobody}"))


def test_an_admin_fails_at_once(nobody: str) -> None:
    begin = time.monotonic()
    with Admin(nobody) as admin:
        for ask in (admin.cluster, lambda: admin.topics.create("x", 1)):
            with pytest.raises(KafkaError, match=f"cannot reach {nobody}: Connection") as error:
                ask()
            assert error.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert time.monotonic() - begin < SOON_S


def test_the_error_of_a_body_comes_before_a_flush_of_a_minute(
    nobody: str, caplog: pytest.LogCaptureFixture
) -> None:
    begin = time.monotonic()

    def send() -> None:
        with Producer(nobody, value=str) as producer:
            until(lambda: logged(caplog, "cannot reach"))
            producer.send("x", "v").result(0.2)

    with caplog.at_level(logging.WARNING, "ottla.client"), pytest.raises(TimeoutError) as error:
        send()
    assert str(error.value) == (
        f"the record was not delivered in 0.2 s: cannot reach {nobody}: Connection refused"
    )
    assert time.monotonic() - begin < SOON_S
    assert logged(caplog, "1 records not delivered"), "the log names what is lost"


def test_an_incomplete_flush_names_its_cause(nobody: str) -> None:
    producer: Producer[bytes, str] = Producer(nobody, value=str)
    producer.send("x", "v")
    with pytest.raises(KafkaError, match=r"1 records not .* after 2 s: cannot reach"):
        producer.close(2)


@pytest.mark.parametrize("make", [Producer, Admin, Consumer, ShareConsumer])
def test_an_address_needs_a_port(make: Callable[..., Any]) -> None:
    """librdkafka assumes port 9092; Kafka's clients refuse the address in these words."""
    words = {"topics": "x", "group": "g"} if make is ShareConsumer else {}
    with pytest.raises(KafkaError, match=r"Invalid url in bootstrap\.servers: localhost; an ad"):
        make("localhost", **words)


def test_a_producer_in_async_with(kafka_session: LocalCluster) -> None:
    servers = kafka_session.bootstrap_servers

    async def sent() -> int:
        async with Producer(servers, value=dict) as producer:
            first = await producer.send("in-async", {"number": 1})
            producer.send("in-async", {"number": 2})
        with pytest.raises(RuntimeError, match="of the body"):
            async with Producer(servers):
                raise RuntimeError("of the body")
        return first.offset

    assert asyncio.run(sent()) == 0
    with Consumer(servers, "in-async", value=dict, auto_offset_reset="earliest") as consumer:
        assert [record.value for record in consumer.take(2)] == [{"number": 1}, {"number": 2}]


@pytest.mark.parametrize(
    ("serdes", "key", "value", "hint"),
    [
        ({}, None, {"a": 1}, "the value of a record for x is of type dict"),
        ({}, None, {"a": 1}, r"Producer\(\.\.\., value=dict\)"),
        ({}, 5, "text", r"Producer\(\.\.\., key=int\)"),
        ({"value": str}, None, 5, r"Producer\(\.\.\., value=int\)"),
        ({"value": str}, None, b"5", r"Producer\(\.\.\., value=bytes\)"),
        ({}, None, object(), r"Producer\(\.\.\., value=Json\(\)\)"),
    ],
)
def test_a_value_without_a_serde_has_a_hint(
    nobody: str, serdes: dict[str, type], key: Any, value: Any, hint: str
) -> None:
    with Producer(nobody, **serdes) as producer, pytest.raises(TypeError, match=hint):
        producer.send("x", value, key=key)
