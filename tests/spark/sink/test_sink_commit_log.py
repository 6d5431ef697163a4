"""Exactly once on a real broker: a crash at every step of tasks and drivers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from sink_rows import options, rows, topic, turn, values

from ottla.broker.transaction_markers import TransactionMarkerChannel
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.transactions import (
    ProducerIdAndEpoch,
    describe_transactions,
    end_transaction,
    init_transactions,
)
from ottla.coordinator.transactions.result import TransactionMarkers
from ottla.engine.packed_rows import pack_output_rows
from ottla.engine.records import OutputRow
from ottla.rows.schema import Column, FormatInfo, Layout, LogicalSchema
from ottla.rows.types import STRING
from ottla.spark.sink.commit_log import (
    COMMITTER_TIMEOUT_MS,
    CommitEntry,
    CommitLog,
    DeliveryError,
    SinkIdentity,
    TaskTransaction,
)
from ottla.spark.sink.options import WriteOptions
from ottla.spark.sink.task_attempt import TaskAttempt, WriteResult, cluster_of, commit_log_of, mark
from ottla.spark.sink.task_attempt import write_exactly_once as write_and_tell
from ottla.testing import LocalCluster

SEND = TransactionMarkerChannel.send


def write_once(given: WriteOptions, at: TaskAttempt, batches: Iterable[Any]) -> TaskTransaction:
    return write_and_tell(given, at, batches).transaction


def decide(given: WriteOptions, at: TaskAttempt, *written: TaskTransaction) -> None:
    commit_log_of(given, at.identity).commit(batch=at.batch, run=at.run, transactions=written)


def decide_and_die(
    monkeypatch: pytest.MonkeyPatch, given: WriteOptions, at: TaskAttempt, *written: TaskTransaction
) -> None:
    """The commit entry is written, and the tasks' transactions are still open."""
    with monkeypatch.context() as patch:
        patch.setattr("ottla.spark.sink.commit_log.end_transactions", lambda *_, **__: None)
        decide(given, at, *written)


def state(given: WriteOptions, at: TaskAttempt) -> CommitEntry:
    return commit_log_of(given, at.identity).read()


def test_records_become_visible_with_the_decision(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    given, first, second = options(broker, topic=name), turn("q1"), turn("q1", task=1)
    written = [write_once(given, first, rows("a", "b")), write_once(given, second, rows("c"))]
    assert [result.rows for result in written] == [2, 1]
    assert values(broker, name) == []
    decide(given, first, *written)
    assert sorted(values(broker, name)) == ["a", "b", "c"]
    assert state(given, first) == CommitEntry(0, "run", "run", 2, ((0, 0), (1, 0)), slot=0)


def test_batches_follow_each_other(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    for batch in range(5):
        at = turn("q2", batch=batch)
        decide(given, at, write_once(given, at, rows(f"{batch}")))
    assert values(broker, name) == ["0", "1", "2", "3", "4"]


def test_a_repeated_task_replaces_its_output(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    write_once(
        given, turn("q3"), rows("lost")
    )  # its worker dies, and the driver does not learn of it
    again = write_once(given, turn("q3"), rows("a"))
    decide(given, turn("q3"), again)
    assert values(broker, name) == ["a"]


def test_the_later_attempt_counts(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    write_once(given, turn("q4"), rows("lost"))  # its executor is killed
    later = write_once(given, turn("q4", attempt=1), rows("a"))
    decide(given, turn("q4"), later)
    assert state(given, turn("q4")).writers == ((0, 1),)
    assert values(broker, name) == ["a"], "readers do not wait for the first attempt's timeout"
    next_run = turn("q4", batch=1, run="run 2")
    decide(given, next_run, write_once(given, next_run, rows("b")))
    assert values(broker, name) == ["a", "b"]


def test_the_driver_dies_before_it_decides(broker: LocalCluster) -> None:
    """The batch is rerun with other tasks and rows, and nothing of the first run is visible."""
    name = topic(broker)
    given = options(broker, topic=name)
    for task in range(4):
        write_once(given, turn("q5", task=task), rows(f"lost {task}"))
    again = turn("q5", run="run 2")
    decide(given, again, write_once(given, again, rows("a", "b")))
    assert values(broker, name) == ["a", "b"]


def test_a_stateful_query_reruns_a_whole_decided_batch(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, ottla_packed="true")
    run: list[int] = []

    def batches() -> Iterator[Any]:
        for task in range(3):
            run.append(task)
            cells = list(pack_output_rows([OutputRow(name, None, b"%d" % task, 5)]))
            yield pa.RecordBatch.from_pydict({"rows": pa.array(cells, pa.binary())})

    decide(given, turn("packed"), write_once(given, turn("packed"), batches()))
    again = turn("packed", run="run 2")
    assert write_once(given, again, batches()).skipped
    assert run == [0, 1, 2] * 2
    assert values(broker, name) == ["0", "1", "2"]


def test_the_driver_dies_after_it_has_decided(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tasks' transactions are still open: the next run ends them, and writes nothing."""
    name = topic(broker, 2)
    given = options(broker, topic=name)
    written = [write_once(given, turn("q6", task=task), rows(f"{task}")) for task in range(3)]
    decide_and_die(monkeypatch, given, turn("q6"), *written)
    assert values(broker, name) == []
    again = turn("q6", run="run 2")
    skipped = write_once(given, again, rows("again"))
    assert skipped.skipped
    assert sorted(values(broker, name)) == ["0", "1", "2"]
    decide(given, again, skipped, TaskTransaction(1))
    following = turn("q6", batch=1, run="run 2")
    decide(given, following, write_once(given, following, rows("3")))
    assert sorted(values(broker, name)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("asked", [True, False], ids=["ended by the driver", "ended by the heir"])
def test_a_new_generation_sees_all_that_was_committed_before(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """EndTxn returns before the markers are written, on any broker: a query that restores its state
    from committed records must wait for them."""
    name = topic(broker)
    given, at = options(broker, topic=name), turn()
    later = Later(name)
    written = write_once(given, at, rows("a"))
    with monkeypatch.context() as patch:
        patch.setattr(TransactionMarkerChannel, "send", lambda *given: later.send(*given))
        if asked:
            decide(given, at, written)
        else:
            decide_and_die(monkeypatch, given, at, written)
        assert values(broker, name) == []
        cluster = cluster_of(given)
        patch.setattr(cluster, "sleep", later.come)  # they are written when a caller waits for them
        decisions = CommitLog(cluster, at.identity, timeout_ms=COMMITTER_TIMEOUT_MS)
        decisions.start_generation(run="run 2", topic=name)
        assert values(broker, name) == ["a"]


class Later:
    """Delays the markers of a topic until a caller waits for them."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting: list[Callable[[], object]] = []

    def send(self, post: TransactionMarkerChannel, markers: TransactionMarkers, *more: Any) -> None:
        if self._topic not in {topic for topic, _ in markers.partitions}:
            SEND(post, markers, *more)
            return
        loop = asyncio.get_running_loop()
        self._waiting.append(partial(loop.call_soon_threadsafe, SEND, post, markers, *more))

    def come(self, seconds: float) -> None:
        while self._waiting:
            self._waiting.pop()()
        time.sleep(seconds)


def test_the_driver_dies_before_spark_knows(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    decide(given, turn("q7"), write_once(given, turn("q7"), rows("a")))
    again = turn("q7", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    assert values(broker, name) == ["a"]


def test_an_empty_batch_between_two_others_is_harmless(broker: LocalCluster) -> None:
    """It has no entry. The batch left open by the next run must not count as committed."""
    name = topic(broker)
    given = options(broker, topic=name)
    decide(given, turn("q21"), write_once(given, turn("q21"), rows("a")))
    decide(given, turn("q21", batch=1), write_once(given, turn("q21", batch=1), rows()))
    write_once(given, turn("q21", batch=2), rows("lost"))  # and the driver dies
    again = turn("q21", batch=2, run="run 2")
    decide(given, again, write_once(given, again, rows("b")))
    assert values(broker, name) == ["a", "b"]


def test_a_task_that_slept_through_a_decision_writes_nothing(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has seen that its run may write, and gets its producer after another run has committed."""
    name = topic(broker)
    given, new = options(broker, topic=name), turn("q22", run="run 2")

    def awake_too_late(
        cluster: ClusterClient, transactional_id: str, timeout_ms: int
    ) -> ProducerIdAndEpoch:
        if transactional_id.endswith("-0-0"):
            monkeypatch.undo()
            decide(given, new, write_once(given, new, rows("a")))
        return init_transactions(cluster, transactional_id, timeout_ms)

    monkeypatch.setattr("ottla.spark.sink.commit_log.init_transactions", awake_too_late)
    with pytest.raises(DeliveryError, match="another run of query q22 has taken over"):
        write_once(given, turn("q22"), rows("zombie"))
    third = turn("q22", run="run 3")  # there is no later decision
    decide(given, third, write_once(given, third, rows("a")))
    assert values(broker, name) == ["a"]


def test_an_unfinished_decision_is_taken_over_soon(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died between TxnOffsetCommit and EndTxn: no run waits for its timeout."""
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q23")
    written = write_once(given, at, rows("lost"))
    monkeypatch.setattr("ottla.spark.sink.commit_log.SETTLE_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr("ottla.spark.sink.commit_log.end_transaction", _dies)
        with pytest.raises(KeyboardInterrupt):
            decide(given, at, written)
    again = turn("q23", run="run 2")
    begin = time.monotonic()
    decide(given, again, write_once(given, again, rows("a")))
    assert time.monotonic() - begin < COMMITTER_TIMEOUT_MS / 1000 / 2
    assert values(broker, name) == ["a"]


def _dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_entries_of_the_first_release_are_understood() -> None:
    """Ids alternated with the number of the batch then."""
    old = '{"run":"r","by":"r","n":3,"tasks":"3"}'
    assert [CommitEntry.from_json(old, batch=batch).slot for batch in (6, 7)] == [0, 1]


def test_a_replaced_driver_decides_nothing(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    zombie = write_once(given, turn("q8", task=7), rows("zombie"))
    new = turn("q8", run="run 2")
    written = write_once(given, new, rows("a"))
    with pytest.raises(DeliveryError, match="another run of query q8 has taken over"):
        decide(given, turn("q8"), zombie)
    decide(given, new, written)
    assert values(broker, name) == ["a"]


def test_a_committer_that_is_fenced_reads_the_log_again(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q9")
    written = write_once(given, at, rows("a"))
    cluster = cluster_of(given)
    fenced: list[bool] = []

    def disturbed(*arguments: Any, **named: Any) -> None:
        if not fenced:
            fenced.append(True)
            init_transactions(cluster, at.identity.committer, 60_000)
        end_transaction(*arguments, **named)

    monkeypatch.setattr("ottla.spark.sink.commit_log.end_transaction", disturbed)
    decide(given, at, written)
    assert values(broker, name) == ["a"]
    assert state(given, at).batch == 0


def test_a_task_that_cleans_up_too_late_aborts_no_task_of_its_run(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tasks of a new run take over at once. The first one falls asleep before it looks for
    open transactions; the second one takes over, and writes."""
    name = topic(broker, 2)
    given, first = options(broker, topic=name), turn("q-late")
    decide(given, first, write_once(given, first, rows("a")))
    slow, quick = (turn("q-late", batch=1, run="next", task=task) for task in (0, 1))
    probe = CommitLog._probe
    written: list[TaskTransaction] = []

    def probe_late(log: CommitLog, committed: Iterable[str]) -> Any:
        monkeypatch.setattr(CommitLog, "_probe", probe)
        written.append(write_once(given, quick, rows("c")))
        return probe(log, committed)

    monkeypatch.setattr(CommitLog, "_probe", probe_late)
    written.append(write_once(given, slow, rows("b")))
    decide(given, slow, *reversed(written))
    assert sorted(values(broker, name)) == ["a", "b", "c"]


def test_two_writes_of_one_name_in_one_batch_are_detected(broker: LocalCluster) -> None:
    given, at = options(broker, topic=topic(broker)), turn("q10")
    decide(given, at, write_once(given, at, rows("a")))
    with pytest.raises(DeliveryError, match=r"ottla\.sink\.name"):
        write_once(given, at, rows("b"))


def test_two_writes_of_one_name_are_found_after_a_crash_as_well(broker: LocalCluster) -> None:
    given, at = options(broker, topic=topic(broker)), turn("q11")
    decide(given, at, write_once(given, at, rows("a")))
    again = turn("q11", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    with pytest.raises(DeliveryError, match=r"ottla\.sink\.name"):
        write_once(given, again, rows("b"))


def test_a_checkpoint_older_than_the_output_is_refused(broker: LocalCluster) -> None:
    given = options(broker, topic=topic(broker))
    at = turn("q12", batch=5)
    decide(given, at, write_once(given, at, rows("a")))
    with pytest.raises(DeliveryError, match="the checkpoint is older than the output"):
        write_once(given, turn("q12", batch=3, run="run 2"), rows("b"))


def test_an_ended_transaction_is_not_decided(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q13")
    written = write_once(given, at, rows("a"))
    assert written.producer is not None
    end_transaction(cluster_of(given), written.producer, commit=False)  # as its timeout does
    with pytest.raises(DeliveryError, match="is no longer open"):
        decide(given, at, written)
    again = turn("q13", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    assert values(broker, name) == ["a"]


def test_a_decided_batch_that_timed_out_completely_is_rewritten(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q14")
    written = write_once(given, at, rows("a"))
    decide_and_die(monkeypatch, given, at, written)
    assert written.producer is not None
    end_transaction(cluster_of(given), written.producer, commit=False)
    again = turn("q14", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    assert values(broker, name) == ["a"]


def test_a_committed_batch_that_timed_out_in_part_is_an_error(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    written = [write_once(given, turn("q15", task=task), rows(f"{task}")) for task in range(2)]
    decide_and_die(monkeypatch, given, turn("q15"), *written)
    assert written[1].producer is not None
    end_transaction(cluster_of(given), written[1].producer, commit=False)
    with pytest.raises(DeliveryError, match="1 of 2 tasks"):
        write_once(given, turn("q15", run="run 2"), rows("0"))
    later = turn("q15", batch=1, run="run 3")  # after at_least_once has written the batch
    decide(given, later, write_once(given, later, rows("2")))
    assert values(broker, name) == ["0", "2"]


def test_a_failed_batch_is_aborted_unless_decided(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q16")
    decisions = commit_log_of(given, at.identity)
    written = write_once(given, at, rows("a"))
    decisions.abort(batch=0, run="run", transactions=[written])
    assert written.producer is not None
    the_id = written.producer.transactional_id
    assert describe_transactions(cluster_of(given), [the_id])[the_id].state.endswith("Abort")
    again = write_once(given, at, rows("a"))
    decide(given, at, again)
    decisions.abort(batch=0, run="run", transactions=[again])
    assert values(broker, name) == ["a"]


def test_a_task_that_fails_leaves_nothing_open(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q17")

    def failing() -> Iterator[Any]:
        yield from rows("a")
        raise RuntimeError("the query failed")

    with pytest.raises(RuntimeError, match="the query failed"):
        write_once(given, at, failing())
    with broker.producer() as producer:
        producer.send(name, b"b").result()
    assert values(broker, name) == ["b"]


def test_an_empty_batch_sends_no_request(broker: LocalCluster) -> None:
    given, at = options(broker, topic=topic(broker)), turn("q18")
    written = write_once(given, at, rows())
    decide(given, at, written)
    assert state(given, at) == CommitEntry()


def test_names_keep_sinks_apart(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    for sink in ("one", "two"):
        at = replace(turn("q19"), identity=SinkIdentity("q19", sink))
        decide(given, at, write_once(given, at, rows(sink)))
    assert values(broker, name) == ["one", "two"]


@pytest.mark.parametrize(
    "writers",
    [(), ((0, 0),), ((0, 0), (5, 2), (1023, 0)), tuple((number, 0) for number in range(9999))],
)
def test_an_entry_is_read_as_it_was_written(writers: tuple[tuple[int, int], ...]) -> None:
    entry = CommitEntry(7, "a" * 36, "b" * 36, 3, writers)
    assert CommitEntry.from_json(entry.to_json(), batch=7) == entry
    assert len(entry.to_json()) < 4096


def test_a_new_output_receives_batches_decided_before_it(broker: LocalCluster) -> None:
    """The query has another column for another topic when its last batch is rerun."""
    old, new = topic(broker), topic(broker)
    some, more = fan_out(broker, old), fan_out(broker, old, new)
    at = turn("q20")
    settle(some, at, struct_rows(old, 1, 2))
    assert state(some, at).outputs == {mark(old)}
    for run in ("run 2", "run 3"):  # and once more, as Spark still does not know
        reply = settle(more, turn("q20", run=run), struct_rows(old, 1, 2) + struct_rows(new, 3))
        assert reply.attempt.identity.sink == f"+{mark(new)}"
    assert values(broker, old) == ["1", "2"]
    assert values(broker, new) == ["3"]
    settle(more, turn("q20", batch=1, run="run 3"), struct_rows(old, 4) + struct_rows(new, 5))
    assert values(broker, old) == ["1", "2", "4"]
    assert values(broker, new) == ["3", "5"]


def fan_out(broker: LocalCluster, *topics: str) -> WriteOptions:
    layout = Layout(LogicalSchema((Column("V", STRING),)), FormatInfo("NONE"), FormatInfo("KAFKA"))
    outputs = [{"column": topic, "topic": topic, "layout": layout.to_json()} for topic in topics]
    return options(broker, ottla_layouts=json.dumps(outputs))


def struct_rows(name: str, *numbers: int) -> list[dict[str, Any]]:
    return [{name: {"V": str(number), "ROWTIME": number}} for number in numbers]


def settle(given: WriteOptions, at: TaskAttempt, found: list[dict[str, Any]]) -> WriteResult:
    kind = pa.struct([("V", pa.string()), ("ROWTIME", pa.int64())])
    columns = {
        output.column: pa.array([row.get(output.column) for row in found], kind)
        for output in given.outputs
    }
    reply = write_and_tell(given, at, [pa.RecordBatch.from_pydict(columns)])
    commit_log_of(given, reply.attempt.identity).commit(
        batch=at.batch, run=at.run, transactions=[reply.transaction], outputs=reply.outputs
    )
    return reply


def test_a_new_checkpoint_of_the_same_name_supersedes_earlier_ones(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q40")
    decisions = commit_log_of(given, at.identity)
    first = decisions.start_generation(run="start", topic=name)
    assert first == 1
    at = replace(at, batch=first)
    decide(given, at, write_once(given, at, rows("a")))
    open_still = replace(at, batch=first + 1)
    left = write_once(given, open_still, rows("lost"))
    second = decisions.start_generation(run="start 2", topic=name)
    assert decisions.start_generation(run="start 3", topic=name) > second > first + 1
    assert values(broker, name) == ["a"], "open transactions are aborted, so readers need not wait"
    with pytest.raises(DeliveryError, match="taken over"):
        decide(given, open_still, left)
    with pytest.raises(DeliveryError, match="older than the output"):
        write_once(given, replace(open_still, run="run 2"), rows("lost"))
    assert state(given, at).run == "start 3", "an outdated run takes nothing over"
