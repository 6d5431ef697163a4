"""The state of a query, its failures, and its trigger interval."""

from __future__ import annotations

import pytest

from ottla.queries.failures import (
    FailureClass,
    brief,
    cause_of,
    class_of,
    failure_of,
    refused_topics,
    text_of,
)
from ottla.queries.launcher import (
    AGGREGATE_REST_MS,
    INTERVAL_MS_MAX,
    REST_MS,
    TriggerPolicy,
)
from ottla.queries.states import QueryState, QueryStatus, worst

AWAY = "KafkaError: NETWORK_EXCEPTION: no broker could be reached"


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (AWAY, FailureClass.RETRIABLE),
        ("ConnectionRefusedError: [Errno 111] Connection refused", FailureClass.RETRIABLE),
        ("producer fenced", FailureClass.RETRIABLE),
        ("Python worker failed to connect back.", FailureClass.RETRIABLE),
        ("KafkaError(REQUEST_TIMED_OUT)", FailureClass.RETRIABLE),
        ("AnalysisException: [UNRESOLVED_COLUMN]", FailureClass.FATAL),
        ("UNKNOWN_TOPIC_OR_PARTITION: topic gone", FailureClass.FATAL),
        (
            "Some data may have been lost because ... set failOnDataLoss to false",
            FailureClass.FATAL,
        ),
        ("java.lang.IllegalStateException: hm", FailureClass.UNKNOWN),
        ("java.io.FileNotFoundException: file:/state/3.delta does not exist", FailureClass.UNKNOWN),
    ],
)
def test_failures_have_a_class(cause: str, expected: FailureClass) -> None:
    assert class_of(cause) is expected


def test_a_failure_of_the_sink_names_its_topics() -> None:
    assert refused_topics("KafkaError: topic BAD: UNKNOWN_TOPIC_OR_PARTITION (create it)") == {
        "BAD"
    }
    assert refused_topics("KafkaError: there is no topic BAD.old: create it") == {"BAD.old"}
    assert refused_topics("KafkaError: NOT-BAD-0: MESSAGE_TOO_LARGE; B-1: X") == {"NOT-BAD", "B"}
    failure = failure_of(RuntimeError("KafkaError: BAD-0: MESSAGE_TOO_LARGE"))
    assert (failure.kind, failure.refused_topics) == (FailureClass.FATAL, frozenset({"BAD"}))
    assert not failure_of(RuntimeError("NETWORK_EXCEPTION: no broker")).refused_topics


def test_the_innermost_python_error_comes_first() -> None:
    text = (
        "[STREAM_FAILED] Query x terminated with exception\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in f\n'
        "ottla.errors.KafkaError: no such thing\n"
        "\tat org.apache.spark.Foo\n"
    )
    assert cause_of(text).startswith("ottla.errors.KafkaError: no such thing ([STREAM_FAILED]")


def test_lost_data_is_reported() -> None:
    text = (
        "[PYTHON_STREAMING] Failed when it perform latestOffset: "
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in f\n'
        "ottla.client.protocol.range_fetcher.DataLost: Some data may have been missed:"
        " orders-0 is gone\n"
    )
    assert cause_of(text) == (
        "ottla.client.protocol.range_fetcher.DataLost: Some data may have been missed:"
        " orders-0 is gone ([PYTHON_STREAMING] Failed when it perform latestOffset)"
    )


class OfJava(Exception):
    """Like py4j's: its message comes from a JVM, which may have exited."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("no JVM")


def test_an_error_without_a_message_has_a_cause() -> None:
    assert text_of(OfJava()) == "OfJava, without a message from Java: ConnectionRefusedError"
    assert cause_of(OfJava()) == text_of(OfJava()) == brief(OfJava())


def test_a_brief_error_has_the_beginning_and_the_reason() -> None:
    frames = "\tat org.apache.spark.Foo.bar(Foo.scala:1)\n" * 500
    text = (
        f"An error occurred while calling o1.save.\n: org.apache.spark.SparkException: no\n{frames}"
        f"Caused by: java.lang.InterruptedException\n{frames}\t... 22 more"
    )
    assert brief(OSError(text)).splitlines() == [
        "builtins.OSError: An error occurred while calling o1.save.",
        ": org.apache.spark.SparkException: no",
        "Caused by: java.lang.InterruptedException",
    ]
    long = brief(OSError(f"first {'x' * 100_000} last"))
    assert len(long) < 1600
    assert "first" in long
    assert long.endswith("last")


def test_a_query_has_the_status_of_its_worst_part() -> None:
    well, ill = QueryState(QueryStatus.RUNNING, lag=3), QueryState(QueryStatus.FAILED, "why", 5, 2)
    found = worst([well, ill])
    assert (found.state, found.cause, found.failed_ms, found.restarts) == (
        QueryStatus.FAILED,
        "why",
        5,
        2,
    )
    assert found.lag == 3


def test_many_queries_poll_less_often() -> None:
    triggers = TriggerPolicy()
    assert triggers.interval_ms({}) == 100
    triggers.running = 3
    assert triggers.interval_ms({}) == 300
    assert triggers.interval_ms({"commit.interval.ms": "50"}) == 50


def test_many_queries_pause_longer_unless_an_interval_is_configured() -> None:
    triggers = TriggerPolicy()
    assert triggers.rest_ms({}) == REST_MS
    assert triggers.rest_ms({}, aggregates=True) == AGGREGATE_REST_MS
    triggers.running = 2
    assert triggers.rest_ms({}) == 2 * REST_MS
    triggers.running = 22
    assert triggers.rest_ms({}) == triggers.interval_ms({}) == INTERVAL_MS_MAX
    assert triggers.rest_ms({}, aggregates=True) == INTERVAL_MS_MAX
    assert triggers.rest_ms({"commit.interval.ms": "2000"}) == 0
    assert triggers.rest_ms({"commit.interval.ms": "2000"}, aggregates=True) == 0
    assert triggers.rest_ms({"ksql.streams.commit.interval.ms": "0"}) == 0
