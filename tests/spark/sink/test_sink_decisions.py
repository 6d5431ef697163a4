"""Exactly once, as tasks and drivers do it, on a real broker: each crash where it hurts."""

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

from ottla.broker.markers import MarkerPost
from ottla.client.protocol.cluster_client import ClusterClient
from ottla.client.protocol.transactions import Producer, describe, end, initialize
from ottla.coordinator.transactions.outcome import Markers
from ottla.engine.packed_rows import output_rows
from ottla.engine.records import Output
from ottla.rows.schema import Column, Format, Layout, Schema
from ottla.rows.types import STRING
from ottla.spark.sink.decisions import (
    DECIDER_TIMEOUT_MS,
    Decisions,
    DeliveryError,
    Identity,
    State,
    Written,
)
from ottla.spark.sink.options import WriteOptions
from ottla.spark.sink.writing import Told, Turn, cluster_of, decisions_of, mark
from ottla.spark.sink.writing import write_once as write_and_tell
from ottla.testing import LocalCluster

SEND = MarkerPost.send


def write_once(given: WriteOptions, at: Turn, batches: Iterable[Any]) -> Written:
    return write_and_tell(given, at, batches).written


def decide(given: WriteOptions, at: Turn, *written: Written) -> None:
    decisions_of(given, at.identity).decide(batch=at.batch, run=at.run, written=written)


def decide_and_die(
    monkeypatch: pytest.MonkeyPatch, given: WriteOptions, at: Turn, *written: Written
) -> None:
    """The decision stands, and nobody has ended the transactions of the tasks."""
    with monkeypatch.context() as patch:
        patch.setattr("ottla.spark.sink.decisions.end_all", lambda *_, **__: None)
        decide(given, at, *written)


def state(given: WriteOptions, at: Turn) -> State:
    return decisions_of(given, at.identity).read()


def test_nothing_is_visible_before_the_decision_and_all_after_it(broker: LocalCluster) -> None:
    name = topic(broker, 2)
    given, first, second = options(broker, topic=name), turn("q1"), turn("q1", task=1)
    written = [write_once(given, first, rows("a", "b")), write_once(given, second, rows("c"))]
    assert [each.rows for each in written] == [2, 1]
    assert values(broker, name) == []
    decide(given, first, *written)
    assert sorted(values(broker, name)) == ["a", "b", "c"]
    assert state(given, first) == State(0, "run", "run", 2, ((0, 0), (1, 0)), slot=0)


def test_batches_follow_each_other(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    for batch in range(5):
        at = turn("q2", batch=batch)
        decide(given, at, write_once(given, at, rows(f"{batch}")))
    assert values(broker, name) == ["0", "1", "2", "3", "4"]


def test_a_task_that_runs_again_replaces_what_it_wrote(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    write_once(given, turn("q3"), rows("lost"))  # its worker dies, and the driver does not hear
    again = write_once(given, turn("q3"), rows("a"))
    decide(given, turn("q3"), again)
    assert values(broker, name) == ["a"]


def test_a_later_attempt_is_the_one_that_counts(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    write_once(given, turn("q4"), rows("lost"))
    later = write_once(given, turn("q4", attempt=1), rows("a"))
    decide(given, turn("q4"), later)
    assert state(given, turn("q4")).writers == ((0, 1),)
    next_run = turn("q4", batch=1, run="run 2")  # what the first attempt left open is aborted
    decide(given, next_run, write_once(given, next_run, rows("b")))
    assert values(broker, name) == ["a", "b"]


def test_the_driver_dies_before_it_decides(broker: LocalCluster) -> None:
    """The batch runs again with other tasks and other rows, and nothing of the first is seen."""
    name = topic(broker)
    given = options(broker, topic=name)
    for task in range(4):
        write_once(given, turn("q5", task=task), rows(f"lost {task}"))
    again = turn("q5", run="run 2")
    decide(given, again, write_once(given, again, rows("a", "b")))
    assert values(broker, name) == ["a", "b"]


def test_who_keeps_state_runs_all_of_a_batch_that_was_decided(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, ottla_packed="true")
    run: list[int] = []

    def batches() -> Iterator[Any]:
        for each in range(3):
            run.append(each)
            cells = list(output_rows([Output(name, None, b"%d" % each, 5)]))
            yield pa.RecordBatch.from_pydict({"rows": pa.array(cells, pa.binary())})

    decide(given, turn("packed"), write_once(given, turn("packed"), batches()))
    again = turn("packed", run="run 2")
    assert write_once(given, again, batches()).skipped
    assert run == [0, 1, 2] * 2
    assert values(broker, name) == ["0", "1", "2"]


def test_the_driver_dies_after_it_has_decided(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has ended the tasks' transactions: the next run does, and writes nothing."""
    name = topic(broker, 2)
    given = options(broker, topic=name)
    written = [write_once(given, turn("q6", task=each), rows(f"{each}")) for each in range(3)]
    decide_and_die(monkeypatch, given, turn("q6"), *written)
    assert values(broker, name) == []
    again = turn("q6", run="run 2")
    skipped = write_once(given, again, rows("again"))
    assert skipped.skipped
    assert sorted(values(broker, name)) == ["0", "1", "2"]
    decide(given, again, skipped, Written(1))
    following = turn("q6", batch=1, run="run 2")
    decide(given, following, write_once(given, following, rows("3")))
    assert sorted(values(broker, name)) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("asked", [True, False], ids=["ended by the driver", "ended by the heir"])
def test_who_begins_anew_sees_all_that_was_decided_before(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """The end of a transaction is told before its markers are written, on whichever broker: who
    restores its state from what is committed must not look before they are."""
    name = topic(broker)
    given, at = options(broker, topic=name), turn()
    later = Later(name)
    written = write_once(given, at, rows("a"))
    with monkeypatch.context() as patch:
        patch.setattr(MarkerPost, "send", lambda *given: later.send(*given))
        if asked:
            decide(given, at, written)
        else:
            decide_and_die(monkeypatch, given, at, written)
        assert values(broker, name) == []
        cluster = cluster_of(given)
        patch.setattr(cluster, "sleep", later.come)  # they come when somebody waits for them
        decisions = Decisions(cluster, at.identity, timeout_ms=DECIDER_TIMEOUT_MS)
        decisions.begin_anew(run="run 2", topic=name)
        assert values(broker, name) == ["a"]


class Later:
    """Markers of a topic that stay under way until somebody has patience."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting: list[Callable[[], object]] = []

    def send(self, post: MarkerPost, markers: Markers, *more: Any) -> None:
        if self._topic not in {each for each, _ in markers.partitions}:
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


def test_a_batch_without_rows_between_two_others_confuses_nobody(broker: LocalCluster) -> None:
    """It is not decided. What the next one left open must not be taken for the last decided one."""
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
    """It has seen that its run may write, and gets its producer when another one has decided."""
    name = topic(broker)
    given, new = options(broker, topic=name), turn("q22", run="run 2")

    def awake_too_late(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> Producer:
        if transactional_id.endswith("-0-0"):
            monkeypatch.undo()
            decide(given, new, write_once(given, new, rows("a")))
        return initialize(cluster, transactional_id, timeout_ms)

    monkeypatch.setattr("ottla.spark.sink.decisions.initialize", awake_too_late)
    with pytest.raises(DeliveryError, match="another run of query q22 has taken over"):
        write_once(given, turn("q22"), rows("zombie"))
    third = turn("q22", run="run 3")  # nobody has decided anything since
    decide(given, third, write_once(given, third, rows("a")))
    assert values(broker, name) == ["a"]


def test_a_decision_that_is_never_ended_is_taken_over_soon(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver died between TxnOffsetCommit and EndTxn: nobody waits for its timeout."""
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q23")
    written = write_once(given, at, rows("lost"))
    monkeypatch.setattr("ottla.spark.sink.decisions.SETTLE_S", 0.2)
    with monkeypatch.context() as patch:
        patch.setattr("ottla.spark.sink.decisions.end", _dies)
        with pytest.raises(KeyboardInterrupt):
            decide(given, at, written)
    again = turn("q23", run="run 2")
    begin = time.monotonic()
    decide(given, again, write_once(given, again, rows("a")))
    assert time.monotonic() - begin < DECIDER_TIMEOUT_MS / 1000 / 2
    assert values(broker, name) == ["a"]


def _dies(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_entries_of_the_first_release_are_understood() -> None:
    """Ids alternated with the number of the batch then."""
    old = '{"run":"r","by":"r","n":3,"tasks":"3"}'
    assert [State.from_json(old, batch=each).slot for each in (6, 7)] == [0, 1]


def test_a_driver_that_was_replaced_decides_nothing(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    zombie = write_once(given, turn("q8", task=7), rows("zombie"))
    new = turn("q8", run="run 2")
    written = write_once(given, new, rows("a"))
    with pytest.raises(DeliveryError, match="another run of query q8 has taken over"):
        decide(given, turn("q8"), zombie)
    decide(given, new, written)
    assert values(broker, name) == ["a"]


def test_a_decider_that_is_fenced_in_the_middle_looks_again(
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
            initialize(cluster, at.identity.decider, 60_000)
        end(*arguments, **named)

    monkeypatch.setattr("ottla.spark.sink.decisions.end", disturbed)
    decide(given, at, written)
    assert values(broker, name) == ["a"]
    assert state(given, at).batch == 0


def test_two_writes_of_one_name_in_one_batch_are_told_apart(broker: LocalCluster) -> None:
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


def test_a_transaction_that_has_ended_is_not_decided_about(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q13")
    written = write_once(given, at, rows("a"))
    assert written.producer is not None
    end(cluster_of(given), written.producer, commit=False)  # as its timeout does
    with pytest.raises(DeliveryError, match="is not open any more"):
        decide(given, at, written)
    again = turn("q13", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    assert values(broker, name) == ["a"]


def test_a_decided_batch_that_timed_out_whole_is_written_again(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q14")
    written = write_once(given, at, rows("a"))
    decide_and_die(monkeypatch, given, at, written)
    assert written.producer is not None
    end(cluster_of(given), written.producer, commit=False)
    again = turn("q14", run="run 2")
    decide(given, again, write_once(given, again, rows("a")))
    assert values(broker, name) == ["a"]


def test_a_decided_batch_that_timed_out_in_part_is_told_of(
    broker: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    written = [write_once(given, turn("q15", task=each), rows(f"{each}")) for each in range(2)]
    decide_and_die(monkeypatch, given, turn("q15"), *written)
    assert written[1].producer is not None
    end(cluster_of(given), written[1].producer, commit=False)
    with pytest.raises(DeliveryError, match="1 of 2 tasks"):
        write_once(given, turn("q15", run="run 2"), rows("0"))
    later = turn("q15", batch=1, run="run 3")  # after at_least_once has written the batch
    decide(given, later, write_once(given, later, rows("2")))
    assert values(broker, name) == ["0", "2"]


def test_a_batch_that_failed_is_aborted_unless_it_is_decided(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q16")
    decisions = decisions_of(given, at.identity)
    written = write_once(given, at, rows("a"))
    decisions.abort(batch=0, run="run", written=[written])
    assert written.producer is not None
    the_id = written.producer.transactional_id
    assert describe(cluster_of(given), [the_id])[the_id].state.endswith("Abort")
    again = write_once(given, at, rows("a"))
    decide(given, at, again)
    decisions.abort(batch=0, run="run", written=[again])
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


def test_a_batch_without_rows_asks_nobody(broker: LocalCluster) -> None:
    given, at = options(broker, topic=topic(broker)), turn("q18")
    written = write_once(given, at, rows())
    decide(given, at, written)
    assert state(given, at) == State()


def test_names_keep_sinks_apart(broker: LocalCluster) -> None:
    name = topic(broker)
    given = options(broker, topic=name)
    for sink in ("one", "two"):
        at = replace(turn("q19"), identity=Identity("q19", sink))
        decide(given, at, write_once(given, at, rows(sink)))
    assert values(broker, name) == ["one", "two"]


@pytest.mark.parametrize(
    "writers",
    [(), ((0, 0),), ((0, 0), (5, 2), (1023, 0)), tuple((each, 0) for each in range(9999))],
)
def test_an_entry_is_read_as_it_was_written(writers: tuple[tuple[int, int], ...]) -> None:
    entry = State(7, "a" * 36, "b" * 36, 3, writers)
    assert State.from_json(entry.to_json(), batch=7) == entry
    assert len(entry.to_json()) < 4096


def test_an_output_that_is_new_gets_what_was_decided_without_it(broker: LocalCluster) -> None:
    """The query has another column for another topic when its last batch runs again."""
    old, new = topic(broker), topic(broker)
    some, more = fan_out(broker, old), fan_out(broker, old, new)
    at = turn("q20")
    settle(some, at, struct_rows(old, 1, 2))
    assert state(some, at).outputs == {mark(old)}
    for run in ("run 2", "run 3"):  # and once more, as Spark still does not know
        told = settle(more, turn("q20", run=run), struct_rows(old, 1, 2) + struct_rows(new, 3))
        assert told.turn.identity.sink == f"+{mark(new)}"
    assert values(broker, old) == ["1", "2"]
    assert values(broker, new) == ["3"]
    settle(more, turn("q20", batch=1, run="run 3"), struct_rows(old, 4) + struct_rows(new, 5))
    assert values(broker, old) == ["1", "2", "4"]
    assert values(broker, new) == ["3", "5"]


def fan_out(broker: LocalCluster, *topics: str) -> WriteOptions:
    layout = Layout(Schema((Column("V", STRING),)), Format("NONE"), Format("KAFKA"))
    outputs = [{"column": each, "topic": each, "layout": layout.to_json()} for each in topics]
    return options(broker, ottla_layouts=json.dumps(outputs))


def struct_rows(name: str, *numbers: int) -> list[dict[str, Any]]:
    return [{name: {"V": str(each), "ROWTIME": each}} for each in numbers]


def settle(given: WriteOptions, at: Turn, found: list[dict[str, Any]]) -> Told:
    kind = pa.struct([("V", pa.string()), ("ROWTIME", pa.int64())])
    columns = {
        each.column: pa.array([row.get(each.column) for row in found], kind)
        for each in given.outputs
    }
    told = write_and_tell(given, at, [pa.RecordBatch.from_pydict(columns)])
    decisions_of(given, told.turn.identity).decide(
        batch=at.batch, run=at.run, written=[told.written], outputs=told.outputs
    )
    return told


def test_a_new_checkpoint_of_the_same_name_leaves_those_before_behind(broker: LocalCluster) -> None:
    name = topic(broker)
    given, at = options(broker, topic=name), turn("q40")
    decisions = decisions_of(given, at.identity)
    first = decisions.begin_anew(run="start", topic=name)
    assert first == 1
    at = replace(at, batch=first)
    decide(given, at, write_once(given, at, rows("a")))
    open_still = replace(at, batch=first + 1)
    left = write_once(given, open_still, rows("lost"))
    second = decisions.begin_anew(run="start 2", topic=name)
    assert decisions.begin_anew(run="start 3", topic=name) > second > first + 1
    assert values(broker, name) == ["a"], "what was open is aborted: a reader need not wait"
    with pytest.raises(DeliveryError, match="taken over"):
        decide(given, open_still, left)
    with pytest.raises(DeliveryError, match="older than the output"):
        write_once(given, replace(open_still, run="run 2"), rows("lost"))
    assert state(given, at).run == "start 3", "who is behind takes nothing over"
