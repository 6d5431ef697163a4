"""A topology built by hand, and what Spark does for its tasks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ottla.spark.streams.graph import Graph, ProcessorNode, Sink, Source
from ottla.spark.streams.processors import Context, Processor
from ottla.spark.streams.records import Input, Record, ValueAndTimestamp
from ottla.spark.streams.run.hosting import AnyHome
from ottla.spark.streams.run.plan import Plan
from ottla.spark.streams.run.rows import input_rows
from ottla.spark.streams.serdes import Long, String
from ottla.spark.streams.stores import StoreKind, StoreSpec
from ottla.spark.streams.subtopologies import subtopologies


class Counts(Processor[str, str]):
    def init(self, context: Context) -> None:
        super().init(context)
        self.counts = context.store("counts")

    def process(self, record: Record[str, str]) -> None:
        if record.value == "poison":
            raise ValueError("no poison")
        held = self.counts.get(record.value)
        count = 1 if held is None else held.value + 1
        self.counts.put(record.value, ValueAndTimestamp(count, record.timestamp))
        self.context.forward(Record(record.value, count, record.timestamp))


def counted(application_id: str = "app") -> Plan:
    graph = Graph()
    graph.add(Source("in", ("words",), String(), String()))
    spec = StoreSpec("counts", StoreKind.TIMESTAMPED_KEY_VALUE, String(), Long())
    graph.add_store(spec)
    graph.add(ProcessorNode("count", Counts, ["in"], ["counts"]))
    graph.add(Sink("out", "counts", String(), Long(), ["count"]))
    (piece,) = subtopologies(graph)
    return Plan(piece, application_id, 4, "nowhere:1")


def rows_in(*words: str) -> list[Input]:
    return [
        Input("words", 0, offset, 1000 + offset, None, word.encode())
        for offset, word in enumerate(words)
    ]


class Spark:
    """Nonce and pages of each task."""

    def __init__(self) -> None:
        self.nonces: dict[int, bytes] = {}
        self.pages: dict[int, dict[int, bytes]] = {}
        self.loads = 0

    def batch(
        self, home: AnyHome, task: int, rows: list[Input], *, kept: bool = True
    ) -> list[dict[str, Any]]:
        """`kept`: the batch was written; else its nonce and its pages are gone with it."""
        nonce = self.nonces.get(task)
        pages = self.pages.setdefault(task, {})
        if not home.knows(task, nonce) and nonce is not None:
            home.load(task, nonce, pages.items())
            self.loads += 1
        done = home.run(task, [input_rows(rows)], None)
        if kept:
            self.nonces[task] = done.nonce
            pages.update(done.pages)
            for each in done.removed:
                del pages[each]
        return [
            row for cell in done.cells for row in pa.ipc.open_stream(cell).read_all().to_pylist()
        ]


def sent(rows: list[dict[str, Any]]) -> dict[str, int]:
    """The last count of each word that went to the topic."""
    return {
        row["key"].decode(): int.from_bytes(row["value"], "big")
        for row in rows
        if row["topic"] == "counts"
    }
