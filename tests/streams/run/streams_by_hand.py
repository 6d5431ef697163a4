"""A topology built by hand, and its tasks' batches as Spark runs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from ottla.client.serde import Long, String
from ottla.engine.graph import Graph, ProcessorNode, SinkNode, SourceNode
from ottla.engine.packed_rows import pack_input_rows
from ottla.engine.processors import Processor, ProcessorContext, PunctuationType
from ottla.engine.records import InputRow, Record, ValueAndTimestamp
from ottla.engine.stores import StoreKind, StoreSpec
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task_plan import TaskPlan


class Counts(Processor[str, str]):
    """A processor that counts; some words have special effects."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.counts = context.store("counts")
        self.seen = 0
        context.schedule(30_000, PunctuationType.WALL_CLOCK_TIME, self.tock)

    def tock(self, now_ms: int) -> None:
        self.context.forward(Record("tock", 1, now_ms))

    def process(self, record: Record[str, str]) -> None:
        if record.value == "poison":
            raise ValueError("no poison")
        if record.value == "count me":
            self.seen += 1
            self.context.forward(Record("seen", self.seen, record.timestamp))
            return
        held = self.counts.get(record.value)
        count = 1 if held is None else held.value + 1
        self.counts.put(record.value, ValueAndTimestamp(count, record.timestamp))
        self.context.forward(Record(record.value, count, record.timestamp))


def counted(application_id: str = "app") -> TaskPlan:
    graph = Graph()
    graph.add(SourceNode("in", ("words",), String(), String()))
    spec = StoreSpec("counts", StoreKind.TIMESTAMPED_KEY_VALUE, String(), Long())
    graph.add_store(spec)
    graph.add(ProcessorNode("count", Counts, ["in"], ["counts"]))
    graph.add(SinkNode("out", "counts", String(), Long(), ["count"]))
    (piece,) = subtopologies(graph)
    return TaskPlan(piece, application_id, 4, "nowhere:1")


def rows_in(*words: str) -> list[InputRow]:
    return [
        InputRow("words", 0, offset, 1000 + offset, None, word.encode())
        for offset, word in enumerate(words)
    ]


class TaskRunner(Protocol):
    def run(
        self,
        folder: str,
        batch: int,
        number: int,
        cells: Sequence[bytes],
        now_ms: int | None = None,
    ) -> list[bytes]: ...


class Spark:
    """Counts the batches of a query: a batch that was not `kept` is repeated."""

    def __init__(self, folder: Path) -> None:
        self._folder = str(folder)
        self._next = 0

    def batch(
        self, home: TaskRunner, task: int, rows: list[InputRow], *, kept: bool = True
    ) -> list[dict[str, Any]]:
        cells = home.run(self._folder, self._next, task, [pack_input_rows(rows)])
        self._next += kept
        return rows_of(cells)


def rows_of(cells: list[bytes]) -> list[dict[str, Any]]:
    return [row for cell in cells for row in pa.ipc.open_stream(cell).read_all().to_pylist()]


def sent(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The last count of each word that went to the topic."""
    return {
        row["key"].decode(): int.from_bytes(row["value"], "big")
        for row in rows
        if row["topic"] == "counts"
    }
