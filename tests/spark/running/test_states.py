"""When a failed query is tried again, and what is said about it."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from ottla.spark.running.begin import INTERVAL_MS_MAX, REST_MS, Pace
from ottla.spark.running.causes import Verdict, brief, cause_of, text_of, verdict
from ottla.spark.running.states import HEALTHY_AFTER_S, QueryState, State, Tries, worst

AWAY = "KafkaError: NETWORK_EXCEPTION: no broker could be reached"


@pytest.mark.parametrize(
    ("cause", "expected"),
    [
        (AWAY, Verdict.PASSING),
        ("ConnectionRefusedError: [Errno 111] Connection refused", Verdict.PASSING),
        ("producer fenced", Verdict.PASSING),
        ("Python worker failed to connect back.", Verdict.PASSING),
        ("KafkaError(REQUEST_TIMED_OUT)", Verdict.PASSING),
        ("AnalysisException: [UNRESOLVED_COLUMN]", Verdict.LASTING),
        ("UNKNOWN_TOPIC_OR_PARTITION: topic gone", Verdict.LASTING),
        ("Some data may have been lost because ... set failOnDataLoss to false", Verdict.LASTING),
        ("java.lang.IllegalStateException: hm", Verdict.UNKNOWN),
        ("java.io.FileNotFoundException: file:/state/3.delta does not exist", Verdict.UNKNOWN),
    ],
)
def test_causes_pass_or_last(cause: str, expected: Verdict) -> None:
    assert verdict(cause) is expected


def test_a_passing_cause_is_tried_again_for_ever_ever_more_slowly() -> None:
    tries = Tries()
    waits = [tries.failed(AWAY, 1.0) for _ in range(8)]
    assert waits == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert tries.failed(AWAY, HEALTHY_AFTER_S) == 1.0
    assert tries.restarts == 9


def test_an_unknown_cause_has_three_tries_and_a_lasting_one_none() -> None:
    tries = Tries()
    assert [tries.failed("hm", 0.0) for _ in range(4)] == [1.0, 2.0, 4.0, None]
    assert Tries().failed("AnalysisException", 0.0) is None


def test_the_innermost_python_error_is_told_first() -> None:
    text = (
        "[STREAM_FAILED] Query x terminated with exception\n"
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in f\n'
        "ottla.errors.KafkaError: no such thing\n"
        "\tat org.apache.spark.Foo\n"
    )
    assert cause_of(text).startswith("ottla.errors.KafkaError: no such thing ([STREAM_FAILED]")


def test_data_that_is_lost_is_told_of() -> None:
    text = (
        "[PYTHON_STREAMING] Failed when it perform latestOffset: "
        "Traceback (most recent call last):\n"
        '  File "a.py", line 3, in f\n'
        "ottla.spark.fetching.DataLost: Some data may have been missed: orders-0 is gone\n"
    )
    assert cause_of(text) == (
        "ottla.spark.fetching.DataLost: Some data may have been missed: orders-0 is gone"
        " ([PYTHON_STREAMING] Failed when it perform latestOffset)"
    )


class OfJava(Exception):
    """As py4j's: its words are asked for from a JVM, which may be gone."""

    def __str__(self) -> str:
        raise ConnectionRefusedError("no JVM")


def test_an_error_that_can_not_say_what_it_is_has_a_cause() -> None:
    assert text_of(OfJava()) == "OfJava, and Java does not say more: ConnectionRefusedError"
    assert cause_of(OfJava()) == text_of(OfJava()) == brief(OfJava())


def test_brief_words_have_the_beginning_and_the_reason() -> None:
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


def test_a_query_is_as_its_worst_part() -> None:
    well, ill = QueryState(State.RUNNING, lag=3), QueryState(State.FAILED, "why", 5, 2)
    found = worst([well, ill])
    assert (found.state, found.cause, found.failed_ms, found.restarts) == (
        State.FAILED,
        "why",
        5,
        2,
    )
    assert found.lag == 3


def test_many_queries_look_less_often() -> None:
    pace = Pace()
    assert pace.interval_ms({}) == 100
    with pace.counted(), pace.counted(), pace.counted():
        assert pace.interval_ms({}) == 300
    assert pace.interval_ms({"commit.interval.ms": "50"}) == 50


def test_many_queries_rest_longer_but_not_where_somebody_says_how_often() -> None:
    pace = Pace()
    assert pace.rest_ms({}) == REST_MS
    with pace.counted(), pace.counted():
        assert pace.rest_ms({}) == 2 * REST_MS
        with ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(pace.counted())
            assert pace.rest_ms({}) == pace.interval_ms({}) == INTERVAL_MS_MAX
    assert pace.rest_ms({"commit.interval.ms": "2000"}) == 0
    assert pace.rest_ms({"ksql.streams.commit.interval.ms": "0"}) == 0
