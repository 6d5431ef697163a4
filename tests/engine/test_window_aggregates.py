"""Aggregates with final results: when they emit."""

from __future__ import annotations

import pytest

from ottla.client.serde import Bytes, Json, String
from ottla.engine.cells import DictCells
from ottla.engine.graph import Graph, ProcessorNode, SinkNode, SourceNode
from ottla.engine.records import InputRow
from ottla.engine.stateless import KTableToStream
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import StreamTask
from ottla.engine.window_aggregates import WindowAggregation
from ottla.engine.window_operations import WindowAggregateOperation
from ottla.engine.windows import TimeWindows
from ottla.testing.manual_clock import ManualClock


def task_of(*, stored_first: bool) -> StreamTask:
    """Counts in windows of 2 ms with 1 ms of grace."""
    windows, graph = TimeWindows(2, 2, 1), Graph()
    spec = StoreSpec(
        "counts",
        StoreKind.TIMESTAMPED_WINDOW,
        String(),
        Json(),
        retention_ms=windows.retention_ms,
        window_ms=2,
    )
    aggregation = WindowAggregation(
        spec, lambda: 0, lambda key, value, n: n + 1, True, stored_first=stored_first
    )
    graph.add(SourceNode("source", ("in",), String(), Bytes()))
    graph.add_store(spec)
    counted = WindowAggregateOperation(windows, aggregation)
    graph.add(ProcessorNode("count", counted, ["source"], ["counts"]))
    graph.add(ProcessorNode("values", KTableToStream, ["count"]))
    graph.add(ProcessorNode("plain", lambda: _Plain(), ["values"]))
    graph.add(SinkNode("sink", "out", Json(), Json(), ["plain"]))
    (piece,) = subtopologies(graph)
    return StreamTask(piece, 0, lambda _: DictCells(), ManualClock(), caching=False)


class _Plain(KTableToStream):
    def step(self, downstream):  # type: ignore[no-untyped-def]
        return lambda record: downstream(record.with_key(list(record.key.window)))


@pytest.mark.parametrize(
    ("stored_first", "windows"),
    [(False, [b"[0,2]", b"[2,4]"]), (True, [b"[2,4]"])],
)
def test_a_leap_of_time_drops_windows_if_the_record_is_stored_first(
    stored_first: bool, windows: list[bytes]
) -> None:
    """As in Kafka: the window at 0 expires with the record that closes it."""
    task = task_of(stored_first=stored_first)
    rows = [InputRow("in", 0, at, at, b"k", b"v") for at in (0, 1, 2, 5)]
    assert [row.key for row in task.process(rows)] == windows
