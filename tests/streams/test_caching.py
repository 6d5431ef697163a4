"""A commit forwards the last change of each key, as Kafka's caches do."""

from __future__ import annotations

from collections.abc import Iterable

from streams_kit import strings

from ottla.clock import SystemClock
from ottla.engine.cells import DictCells
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import StreamTask
from ottla.streams import KStream, Long, String, Topology


def rows(*words: str) -> list[InputRow]:
    """`key=value`, one millisecond apart; an empty value is null."""
    found = []
    for place, word in enumerate(words):
        key, _, value = word.partition("=")
        found.append(InputRow("in", 0, place, place, key.encode(), value.encode() or None))
    return found


def task_of(topology: Topology, *, caching: bool = True) -> StreamTask:
    (piece,) = subtopologies(topology.graph)
    cells: dict[str, DictCells] = {}
    opened = lambda name: cells.setdefault(name, DictCells())  # noqa: E731
    return StreamTask(piece, 0, opened, SystemClock(), caching=caching)


def rows_of(outputs: Iterable[OutputRow]) -> list[tuple[str, int | None, int]]:
    return [
        ((output.key or b"").decode(), Long().deserialize("", output.value), output.timestamp)
        for output in outputs
    ]


def counting(*, cached: bool = True) -> Topology:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    stream.group_by_key().count(store="counts", cached=cached).to_stream().to("out", value=Long())
    return topology


def test_a_commit_forwards_the_last_count_of_each_key_in_the_order_of_the_last_changes() -> None:
    task = task_of(counting())
    assert task.process(rows("a=1", "b=1", "a=1", "c=1", "a=1")) == []
    assert rows_of(task.commit()) == [("b", 1, 1), ("c", 1, 3), ("a", 3, 4)]
    assert task.commit() == []


def test_without_a_cache_every_update_is_forwarded_at_once() -> None:
    for task in (task_of(counting(), caching=False), task_of(counting(cached=False))):
        assert rows_of(task.process(rows("a=1", "a=1"))) == [("a", 1, 0), ("a", 2, 1)]
        assert task.commit() == []


def test_a_key_created_and_deleted_between_commits_is_not_forwarded() -> None:
    topology = strings()
    topology.table("in", store="kept").to_stream().to("out")
    task = task_of(topology)
    task.process(rows("a=1", "b=1", "a="))
    assert [row.key for row in task.commit()] == [b"b"]
    task.process(rows("b="))
    assert [(row.key, row.value) for row in task.commit()] == [(b"b", None)]


def test_the_old_value_is_that_of_the_last_commit() -> None:
    """A filter on counts: what passed at the last commit and does no more is deleted."""
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    even = stream.group_by_key().count(store="counts").filter(lambda count: count % 2 == 0)
    even.to_stream().to("out", value=Long())
    task = task_of(topology)
    task.process(rows("a=1", "a=1", "b=1", "b=1", "b=1"))
    assert rows_of(task.commit()) == [("a", 2, 1)]
    task.process(rows("a=1", "b=1"))
    assert rows_of(task.commit()) == [("a", None, 1), ("b", 4, 4)]


def test_caches_below_are_flushed_in_the_same_commit() -> None:
    topology = strings()
    stream: KStream[str, str] = topology.stream("in")
    counts = stream.group_by_key().count(store="first")
    counts.map_values(lambda count: count * 10, value=Long(), store="second").to_stream().to("out")
    task = task_of(topology)
    task.process(rows("a=1", "a=1"))
    assert rows_of(task.commit()) == [("a", 20, 1)]


def test_keys_need_not_be_hashable() -> None:
    from ottla.streams import Json

    topology = Topology()
    stream: KStream[dict[str, int], str] = topology.stream("in", key=Json(), value=String())
    stream.group_by_key().count(store="counts").to_stream().to("out")
    task = task_of(topology)
    task.process(
        [InputRow("in", 0, 0, 0, b'{"a":1}', b"x"), InputRow("in", 0, 1, 0, b'{"a":1}', b"y")]
    )
    assert rows_of(task.commit()) == [('{"a":1}', 2, 0)]
