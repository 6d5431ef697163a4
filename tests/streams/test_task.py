"""Tasks built by hand from nodes, the basis of every DSL operation."""

from __future__ import annotations

from typing import Any

from ottla.client.serde import Long, String
from ottla.engine.cells import DictCells
from ottla.engine.graph import Graph, ProcessorNode, SinkNode, SourceNode
from ottla.engine.processors import Processor, ProcessorContext, PunctuationType
from ottla.engine.records import InputRow, OutputRow, Record
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import StreamTask, in_record_order


class Hand:
    """A clock that stands still."""

    now = 0

    def now_ms(self) -> int:
        return self.now


class Totals(Processor[str, int]):
    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.totals = context.store("totals")
        context.schedule(10, PunctuationType.STREAM_TIME, self.tick)

    def process(self, record: Record[str, int]) -> None:
        total = (self.totals.get(record.key) or 0) + record.value
        self.totals.put(record.key, total)
        self.context.numbers["records"] = self.context.numbers.get("records", 0) + 1
        self.context.forward(record.with_value(total))

    def tick(self, now_ms: int) -> None:
        for key, total in self.totals.all():
            self.context.forward(Record(f"{key}@{now_ms}", total, now_ms))


def totals() -> Graph:
    graph = Graph()
    graph.add(SourceNode("in", ("numbers",), String(), Long()))
    graph.add_store(StoreSpec("totals", StoreKind.KEY_VALUE, String(), Long()))
    graph.add(ProcessorNode("add", Totals, ["in"], ["totals"], custom=True))
    graph.add(SinkNode("out", "sums", String(), Long(), ["add"]))
    return graph


class Memory:
    """The cells of a task, which outlive it."""

    def __init__(self) -> None:
        self.cells: dict[str, DictCells] = {}

    def open(self, name: str) -> DictCells:
        return self.cells.setdefault(name, DictCells())


def row(key: str, value: int, timestamp: int, offset: int = 0, **more: Any) -> InputRow:
    return InputRow(
        "numbers", 0, offset, timestamp, key.encode(), Long().serialize("", value), **more
    )


def plain(rows: list[OutputRow]) -> list[tuple[str, int | None, int]]:
    return [
        ((row.key or b"").decode(), Long().deserialize("", row.value), row.timestamp)
        for row in rows
    ]


def test_a_task_keeps_its_stores_stream_time_and_schedules_in_cells() -> None:
    (piece,) = subtopologies(totals())
    memory = Memory()
    task = StreamTask(piece, 0, memory.open, Hand())
    assert plain(task.process([row("a", 1, 5), row("a", 2, 6)])) == [
        ("a", 1, 5),
        ("a@5", 1, 5),  # the first record is the first time
        ("a", 3, 6),
    ]
    assert task.commit() == []
    again = StreamTask(piece, 0, memory.open, Hand())
    assert again.stream_time == 6
    assert again.numbers == {"records": 2}
    assert plain(again.process([row("b", 1, 9)])) == [("b", 1, 9)]
    assert plain(again.process([row("b", 1, 31)])) == [
        ("b", 2, 31),
        ("a@31", 3, 31),
        ("b@31", 2, 31),
    ]
    assert plain(again.process([row("b", 1, 39)])) == [("b", 3, 39)]


def test_an_extractor_decides_about_the_order_between_partitions() -> None:
    graph = Graph()
    graph.add(
        SourceNode("in", ("numbers",), String(), Long(), extractor=lambda record, _: record.value)
    )
    graph.add(SinkNode("out", "sums", String(), Long(), ["in"]))
    (piece,) = subtopologies(graph)
    task = StreamTask(piece, 0, Memory().open, Hand())
    late, soon = row("late", 50, 1), row("soon", 20, 2)._replace(partition=1)
    broken = row("broken", 30, 30)._replace(partition=2, value=b"x")
    ordered = task.in_order([late, soon, broken])
    assert [row.key for row in ordered] == [b"soon", b"broken", b"late"]


def test_rows_go_by_offset_in_a_partition_and_by_time_between_partitions() -> None:
    rows = [
        InputRow("b", 0, 7, 40, b"4", None),
        InputRow("a", 0, 1, 50, b"1", None),
        InputRow("a", 0, 2, 10, b"2", None),
        InputRow("b", 0, 6, 20, b"3", None),
        InputRow("c", 0, 9, 5, b"6", None, turn=1),
        InputRow("c", 0, 9, 5, b"5", None, turn=0),
    ]
    keys = [row.key for row in in_record_order(rows)]
    assert keys == [b"5", b"6", b"3", b"4", b"1", b"2"]
