"""The chain as a whole: converters, transforms, and the policy for failed records."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.data import (
    INT32_SCHEMA,
    STRING_SCHEMA,
    ConnectRecord,
    Header,
    SinkRecord,
    SourceRecord,
    Struct,
    TimestampType,
    struct_schema,
)
from ottla.connect.errors import ConfigException, ConnectException, RetriableException
from ottla.connect.rows import ConsumedRow, ProducedRow
from ottla.connect.transformation_chain import TransformationChain
from ottla.connect.transforms.transform import Transform

JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {
    "key.converter": "StringConverter",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
}
TOLERANT = {"errors.tolerance": "all"}


def row(value: bytes | None, offset: int = 7, **changes: Any) -> ConsumedRow:
    made = ConsumedRow("in", 1, offset, 1000, 0, b"k", value, (("h", b"1"),))
    return made._replace(**changes)


class Shaky(Transform):
    """Fails a number of times, then returns the record."""

    def configure(self, props: Mapping[str, Any]) -> None:
        self.left = int(props.get("times", 1))
        self.fatal = props.get("fatal") == "true"

    def apply(self, record: Any) -> Any:
        if self.left:
            self.left -= 1
            raise ValueError("broken") if self.fatal else RetriableException("not yet")
        return record


SHAKY = {"transforms": "shaky", "transforms.shaky.type": f"{__name__}:Shaky"}


def test_a_source_record_becomes_bytes() -> None:
    schema = struct_schema({"id": INT32_SCHEMA, "name": STRING_SCHEMA})
    record = SourceRecord(
        {"t": 1}, {"o": 2}, "out", 3, STRING_SCHEMA, "k",
        schema, Struct(schema, {"id": 1, "name": "a"}), timestamp=5,
        headers=(Header("n", 12), Header("x", None)),
    )  # fmt: skip
    assert TransformationChain(PLAIN, connector="c").source(record) == ProducedRow(
        "out", 3, b"k", b'{"id":1,"name":"a"}', 5, (("n", b"12"), ("x", None))
    )


def test_a_row_becomes_a_sink_record() -> None:
    record = TransformationChain(PLAIN, connector="c").sink(row(b'{"a":1}'))
    assert record is not None
    assert (record.topic, record.partition, record.offset) == ("in", 1, 7)
    assert (record.key, record.value, record.value_schema) == ("k", {"a": 1}, None)
    assert record.headers[0].key == "h"
    assert record.headers[0].value == 1
    assert record.timestamp == 1000
    assert record.timestamp_type is TimestampType.CREATE_TIME


def test_the_worker_has_converters_for_connectors_that_name_none() -> None:
    worker = {"value.converter": "StringConverter", "key.converter": "ByteArrayConverter"}
    record = TransformationChain(
        {"value.converter.schemas.enable": "false"}, connector="c", worker=worker
    ).sink(row(b"{}"))
    assert record is not None
    assert (record.key, record.value) == (b"k", "{}")


def test_transforms_run_in_order_where_their_predicates_hold() -> None:
    config = PLAIN | {
        "transforms": "route, stamp,drop",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-routed",
        "transforms.stamp.type": "InsertField$Value",
        "transforms.stamp.topic.field": "topic",
        "transforms.drop.type": "Filter",
        "transforms.drop.predicate": "kept",
        "transforms.drop.negate": "true",
        "predicates": "kept",
        "predicates.kept.type": "TopicNameMatches",
        "predicates.kept.pattern": "in-.*",
    }
    chain = TransformationChain(config, connector="c")
    record = chain.sink(row(b'{"a":1}'))
    assert record is not None
    assert record.value == {"a": 1, "topic": "in-routed"}
    assert (record.original_topic, record.topic) == ("in", "in-routed")
    assert chain.sink(row(b"{}", topic="other")) is None
    assert not chain.counts


def test_without_tolerance_a_bad_record_fails_the_task() -> None:
    with pytest.raises(ConnectException, match="Tolerance exceeded in error handler") as caught:
        TransformationChain(PLAIN, connector="c").sink(row(b"{"))
    assert "serialization error" in str(caught.value.__cause__)


def test_tolerated_errors_go_to_the_dead_letter_topic_with_their_context() -> None:
    letters: list[ProducedRow] = []
    config = PLAIN | TOLERANT | {
        "errors.deadletterqueue.topic.name": "dead",
        "errors.deadletterqueue.context.headers.enable": "true",
    }  # fmt: skip
    chain = TransformationChain(config, connector="pump", task=2, on_dead_letter=letters.append)
    assert [r.value for r in chain.sinks([row(b"{"), row(b'"x"')])] == ["x"]
    (letter,) = letters
    assert letter[:5] == ("dead", None, b"k", b"{", 1000)
    headers = dict(letter.headers)
    trace = headers.pop("__connect.errors.exception.stacktrace")
    assert trace is not None
    assert b"DataException" in trace
    message = headers.pop("__connect.errors.exception.message")
    assert message is not None
    assert message.startswith(b"Converting byte[] to Kafka Connect data failed")
    assert headers == {
        "h": b"1",
        "__connect.errors.topic": b"in",
        "__connect.errors.partition": b"1",
        "__connect.errors.offset": b"7",
        "__connect.errors.connector.name": b"pump",
        "__connect.errors.task.id": b"2",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.class.name": JSON.encode(),
        "__connect.errors.exception.class.name": b"org.apache.kafka.connect.errors.DataException",
    }
    assert chain.counts["deadletterqueue-produce-requests"] == 1
    assert chain.counts["total-records-skipped"] == 1


@pytest.mark.parametrize("half", ["key", "value"])
def test_each_converter_of_a_source_may_fail(half: str) -> None:
    config = {"key.converter": "StringConverter", "value.converter": "StringConverter"}
    config |= {f"{half}.converter": "LongConverter"} | TOLERANT
    record = SourceRecord({}, {}, "t", key="no", value="number")
    chain = TransformationChain(config, connector="c")
    assert chain.source(record) is None
    assert chain.counts["total-record-errors"] == 1


def test_a_header_that_can_not_be_converted_fails_the_record() -> None:
    config = PLAIN | TOLERANT | {"header.converter": "IntegerConverter"}
    chain = TransformationChain(config, connector="c")
    assert chain.sink(row(b"{}")) is None
    bad = SourceRecord({}, {}, "t", value={}, headers=(Header("h", "text"),))
    assert chain.source(bad) is None
    assert chain.counts["total-records-skipped"] == 2


def test_retriable_errors_are_retried_with_growing_delays() -> None:
    pauses: list[float] = []
    clock = iter(range(0, 10**6, 100))
    config = PLAIN | SHAKY | {"transforms.shaky.times": "3", "errors.retry.timeout": "60000"}
    chain = TransformationChain(
        config, connector="c", sleep=pauses.append, now_ms=lambda: next(clock)
    )
    assert chain.sink(row(b"{}")) is not None
    assert pauses == [0.3, 0.6, 1.2]
    assert chain.counts["total-retries"] == 3


def test_retries_end_with_the_retry_timeout() -> None:
    now = 0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += int(seconds * 1000)

    config = PLAIN | SHAKY | {"transforms.shaky.times": "100", "errors.retry.timeout": "1000"}
    chain = TransformationChain(config, connector="c", sleep=sleep, now_ms=lambda: now)
    with pytest.raises(ConnectException, match="Tolerance exceeded"):
        chain.sink(row(b"{}"))
    assert now == 1000


def test_retry_delays_have_a_limit() -> None:
    pauses: list[float] = []
    config = PLAIN | SHAKY | {
        "transforms.shaky.times": "20",
        "errors.retry.timeout": "-1",
        "errors.retry.delay.max.ms": "500",
    }  # fmt: skip
    chain = TransformationChain(config, connector="c", sleep=pauses.append)
    assert chain.sink(row(b"{}")) is not None
    assert len(pauses) == 20
    assert max(pauses) <= 0.5


def test_a_stopping_task_does_not_retry() -> None:
    config = PLAIN | SHAKY | TOLERANT | {
        "transforms.shaky.times": "1000000", "errors.retry.timeout": "-1",
    }  # fmt: skip
    chain = TransformationChain(config, connector="c")
    chain.stop()
    with pytest.raises(RetriableException, match="not yet"):
        chain.sink(row(b"{}"))
    assert chain.counts["total-records-skipped"] == 0


def test_other_errors_are_not_retried() -> None:
    config = PLAIN | SHAKY | TOLERANT | {
        "transforms.shaky.fatal": "true", "errors.retry.timeout": "-1",
    }  # fmt: skip
    chain = TransformationChain(config, connector="c", sleep=lambda _: pytest.fail("it waits"))
    assert chain.sink(row(b"{}")) is None
    assert chain.sink(row(b"{}")) is not None


def test_errors_are_logged_with_the_record_if_configured(caplog: pytest.LogCaptureFixture) -> None:
    config = PLAIN | TOLERANT | {"errors.log.enable": "true", "errors.log.include.messages": "true"}
    with caplog.at_level(logging.ERROR, "ottla.connect.errors"):
        TransformationChain(config, connector="pump", task=3).sink(row(b"{"))
    assert caplog.messages == [
        f"Error encountered in task pump-3. Executing stage 'VALUE_CONVERTER' with class '{JSON}', "
        "where consumed record is {topic='in', partition=1, offset=7, timestamp=1000, "
        "timestampType=CreateTime}."
    ]


def test_a_sink_task_reports_records_that_it_can_not_write() -> None:
    letters: list[ProducedRow] = []
    config = PLAIN | TOLERANT | {"errors.deadletterqueue.topic.name": "dead"}
    chain = TransformationChain(config, connector="c", on_dead_letter=letters.append)
    assert chain.reports
    assert not TransformationChain(PLAIN | TOLERANT, connector="c").reports
    record = chain.sink(row(b'{ "a" : 1 }'))
    assert record is not None
    chain.report(record.replace(topic="elsewhere"), ValueError("no such column"))
    chain.report(SinkRecord("t", 0, None, "k", None, {"a": 2}, 9), ValueError("no"))
    assert [letter.value for letter in letters] == [b'{ "a" : 1 }', b'{"a":2}']


def test_a_sink_task_that_reports_fails_without_tolerance() -> None:
    chain = TransformationChain(PLAIN | {"errors.log.enable": "true"}, connector="c")
    record = chain.sink(row(b"{}"))
    assert record is not None
    with pytest.raises(ConnectException, match="Tolerance exceeded"):
        chain.report(record, ValueError("no"))


def test_negative_timestamps() -> None:
    chain = TransformationChain(PLAIN, connector="c")
    record = chain.sink(row(b"{}", timestamp=-1, timestamp_type=-1))
    assert record is not None
    assert record.timestamp is None
    with pytest.raises(ConnectException, match="Invalid record timestamp -2"):
        chain.sink(row(b"{}", timestamp=-2))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"transforms": "a"}, 'Missing required configuration "transforms.a.type"'),
        ({"transforms": "a", "transforms.a.type": "No"}, "Class No could not be found."),
        (
            {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"},
            'Missing required configuration "predicates.p.type"',
        ),
        ({"errors.tolerance": "some"}, "String must be one of: none, all"),
    ],
)
def test_a_config_that_can_not_be_used_is_refused(config: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigException, match=expected):
        TransformationChain(config, connector="c")


def test_transforms_are_closed() -> None:
    chain = TransformationChain(PLAIN | SHAKY, connector="c")
    closed: list[ConnectRecord] = []
    step: Any = chain._steps[0]
    step._transform.close = lambda: closed.append(step)
    chain.close()
    assert closed == [step]
