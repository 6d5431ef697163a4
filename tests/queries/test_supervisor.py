"""The supervisor keeps queries in their target state, and notices every kind of end; no Spark."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from streaming_query import StreamingQuery, specification

from ottla.queries.failures import QueryFailure
from ottla.queries.lifecycle import Recovery
from ottla.queries.query_run import ENDED, THREAD_GONE, QueryRun, figures_in
from ottla.queries.specification import Cancelled, QuerySpecification
from ottla.queries.states import QueryStatus
from ottla.queries.supervisor import SupervisedQuery, Supervisor


class QueryOwner:
    """A supervised query, and every Spark query that was started for it."""

    def __init__(self, by: Supervisor) -> None:
        self.begun: list[StreamingQuery] = []
        self.trouble: Exception | None = None
        self.query = by.supervise(specification(self._begin))
        self.query.begin()

    def _begin(self) -> StreamingQuery:
        if self.trouble is not None:
            raise self.trouble
        assert not any(run.isActive for run in self.begun), "two runs at once"
        self.begun.append(StreamingQuery())
        return self.begun[-1]

    @property
    def last(self) -> StreamingQuery:
        return self.begun[-1]

    def is_in(self, state: QueryStatus) -> bool:
        return self.query.phase is state


@pytest.fixture
def by() -> Iterator[Supervisor]:
    made = Supervisor(watch_s=0.002, back_off_first_ms=10)
    yield made
    made.close()
    until(lambda: made._thread is None)


@pytest.fixture
def kept(by: Supervisor) -> QueryOwner:
    made = QueryOwner(by)
    until(lambda: made.is_in(QueryStatus.RUNNING))
    return made


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_a_dead_query_thread_is_noticed_although_spark_reports_active(kept: QueryOwner) -> None:
    first = kept.last
    first.thread.alive = False
    until(lambda: len(kept.begun) == 2)
    assert not first.isActive, "the rest of the run is stopped"
    until(lambda: kept.is_in(QueryStatus.RUNNING))
    state = kept.query.state()
    assert (state.restarts, state.cause) == (1, THREAD_GONE)


def test_a_query_that_ended_is_restarted_and_finally_given_up(kept: QueryOwner) -> None:
    for number in range(1, 5):
        until(lambda number=number: len(kept.begun) == number)  # type: ignore[misc]
        kept.last.isActive = False
    until(lambda: kept.is_in(QueryStatus.FAILED))
    assert kept.query.state().cause == ENDED
    kept.query.begin()
    until(lambda: kept.is_in(QueryStatus.RUNNING))


def test_successful_batches_reset_the_back_off(kept: QueryOwner) -> None:
    for number in range(2, 9):  # an unknown cause, repeated beyond the limit of consecutive retries
        until(lambda: kept.is_in(QueryStatus.RUNNING))
        kept.last.finish_batch()
        kept.last.fail(RuntimeError("hm"))
        until(lambda number=number: len(kept.begun) == number)  # type: ignore[misc]


def test_each_restart_is_one_line_with_cause_class_attempt_and_next_try(
    kept: QueryOwner, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        kept.last.fail(ConnectionRefusedError("Connection refused"))
        until(lambda: len(kept.begun) == 2)
    (record,) = caplog.records
    assert (
        record.message == "Query q restarts in 0.01 s (attempt 1): Connection refused [retriable]"
    )


def test_a_query_waits_for_a_jvm_that_has_exited(kept: QueryOwner) -> None:
    class Py4JNetworkError(Exception):
        def __str__(self) -> str:
            raise ConnectionRefusedError("not even its words can be had")

    kept.trouble = Py4JNetworkError()
    kept.last.gone = True
    kept.last.fail(kept.trouble)
    until(lambda: kept.query.state().restarts > 5)
    kept.trouble = None
    until(lambda: kept.is_in(QueryStatus.RUNNING))


def test_a_stop_completes_when_nothing_runs_any_more(kept: QueryOwner, by: Supervisor) -> None:
    stopping, go_on = threading.Event(), threading.Event()
    end = kept.last.stop

    def stop() -> None:
        stopping.set()
        assert go_on.wait(60)
        end()

    kept.last.stop = stop  # type: ignore[method-assign]
    answered = threading.Event()
    threading.Thread(target=lambda: kept.query.stop() and answered.set()).start()
    assert stopping.wait(60)
    assert not answered.wait(0.05)
    assert by.triggers.running == 1
    go_on.set()
    assert answered.wait(60)
    assert not kept.last.isActive
    assert by.triggers.running == 0


def test_a_query_can_be_stopped_while_it_starts(by: Supervisor) -> None:
    starting, go_on = threading.Event(), threading.Event()
    begun: list[StreamingQuery] = []

    class Slow(QuerySpecification):
        def start(self, cancelled: Cancelled) -> QueryRun | None:
            starting.set()
            assert go_on.wait(60)
            assert cancelled()
            begun.append(StreamingQuery())
            return QueryRun(begun[-1])  # type: ignore[arg-type]

    query = by.supervise(Slow("slow"))
    query.begin()
    assert starting.wait(60)
    assert not query.stop(0.01)
    go_on.set()
    assert query.stop()
    assert not begun[0].isActive


def test_a_query_restarted_right_after_a_stop_runs_until_the_next_stop(
    kept: QueryOwner,
) -> None:
    for _ in range(20):
        kept.query.stop_soon()
        kept.query.begin()
        assert kept.query.stop()
        assert not kept.last.isActive
        kept.query.begin()


def test_a_changed_specification_is_restarted_at_once(by: Supervisor) -> None:
    asked: list[QueryFailure] = []
    begun: list[StreamingQuery] = []

    class MendingSpecification(QuerySpecification):
        def start(self, cancelled: Cancelled) -> QueryRun | None:
            begun.append(StreamingQuery())
            return QueryRun(begun[-1])  # type: ignore[arg-type]

        def recover(self, failure: QueryFailure) -> Recovery:
            asked.append(failure)
            if len(asked) == 2:
                raise OSError("the disk is full")
            return Recovery.AT_ONCE

    query = by.supervise(MendingSpecification("m"))
    query.begin()
    for number in (1, 2):
        until(lambda number=number: len(begun) == number)  # type: ignore[misc]
        begun[-1].fail(RuntimeError("KafkaError: topic BAD: UNKNOWN_TOPIC_OR_PARTITION"))
    until(lambda: query.phase is QueryStatus.FAILED)
    assert asked[0].refused_topics == {"BAD"}


def test_a_closed_supervisor_has_stopped_every_query_and_still_answers(
    kept: QueryOwner, by: Supervisor
) -> None:
    by.close()
    assert not kept.last.isActive
    kept.query.begin()
    assert kept.query.stop()
    assert len(kept.begun) == 1


def test_the_phase_is_known_without_asking_spark(
    kept: QueryOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def figures(run: QueryRun) -> dict[str, object]:
        asked.append(run)
        return {}

    monkeypatch.setattr(QueryRun, "figures", figures)
    assert kept.query.phase is QueryStatus.RUNNING
    assert not asked
    assert kept.query.state().state is QueryStatus.RUNNING
    assert len(asked) == 1


def test_many_queries_share_one_thread(by: Supervisor) -> None:
    before = threading.active_count()
    all_kept = [QueryOwner(by) for _ in range(30)]
    until(lambda: all(one_kept.is_in(QueryStatus.RUNNING) for one_kept in all_kept))
    until(lambda: threading.active_count() <= before + 1)
    assert by.triggers.running == 30
    queries: list[SupervisedQuery] = [one_kept.query for one_kept in all_kept]
    for query in queries:
        query.stop_soon()
    assert all(query.stop() for query in queries)


@pytest.mark.parametrize(
    ("latest", "end", "lag"),
    [
        ({"t": {"0": 7}}, {"t": {"0": 4}}, 3),
        ('{"offsets": {"0": 9}}', '{"offsets": {"0": 9}}', 0),  # a topic of this name
        ({"offsets": {"t": {"0": 7}}}, {"batch": 2, "offsets": {"t": {"0": 5}}}, 2),
        ({"batch": 3}, {"batch": 3}, 0),
        (None, "no JSON", 0),
    ],
)
def test_lag_is_the_sum_over_all_sources(latest: object, end: object, lag: int) -> None:
    progress = {"batchId": 1, "sources": [{"latestOffset": latest, "endOffset": end}]}
    assert figures_in(progress)["lag"] == lag
