"""Chains of joins with steps that fail: batches give what single records give, and leave no trace
of a step that failed behind others that had changed their stores."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.clock import SystemClock
from ottla.engine import task
from ottla.engine.cells import LoggedCells
from ottla.engine.failures import Failure
from ottla.engine.records import InputRow, OutputRow
from ottla.engine.subtopologies import Subtopology, subtopologies
from ottla.engine.task import StreamTask
from ottla.streams import Serde, Topology, within

BATCHES = 3
FAILING = ("store", "sink", "joiner", "null")


class Text(Serde[str]):
    """Reads batches, and can't write some of the values in stores and at the sink."""

    def __init__(self, failing: Sequence[str]) -> None:
        self._failing = failing

    def serialize(self, topic: str, value: str | None) -> bytes | None:
        where = "sink" if topic == "out" else "store"
        if where in self._failing and is_chosen(where, value):
            raise ValueError(f"{value} in the {where}")
        return None if value is None else value.encode()

    def deserialize(self, topic: str, data: bytes | None) -> str | None:
        if data == b"not read":
            raise ValueError("not read")
        return None if data is None else data.decode()

    def deserialize_batch(self, topic: str, data: Sequence[bytes | None]) -> list[str | None]:
        return [self.deserialize(topic, datum) for datum in data]


def is_chosen(where: str, value: object) -> bool:
    return zlib.crc32(f"{where} {value}".encode()) % 61 == 0


@given(seed=st.integers(0, 2**32))
@settings(max_examples=200, deadline=None)
def test_failures_results_and_state_are_those_of_single_records(seed: int) -> None:
    single = outcome(seed, batched=False)
    assert outcome(seed, batched=True) == single


def test_a_store_that_fails_behind_another_leaves_no_trace() -> None:
    """The first join's store can't take a record that the second one's has taken."""

    class Picky(Text):
        def serialize(self, topic: str, value: str | None) -> bytes | None:
            if value == "a-7" and topic.endswith("-changelog"):
                raise ValueError(value)
            return super().serialize(topic, value)

    topology = Topology(key=Text(()), value=Picky(()))
    first, second, third = (topology.stream(name) for name in "abc")
    joined = first.join(second, plus, within(minutes=1))
    joined.join(third, plus, within(minutes=1)).to("out")
    (piece,) = subtopologies(topology.graph)
    found = []
    for run_min in (1 << 40, 1):
        cells: dict[str, LoggedCells] = {}
        failures: list[Failure] = []
        made = task_of(piece, cells, failures)
        rows = [
            InputRow(topic, 0, number, 1_000, b"k", f"{topic}-{number}".encode())
            for topic in "ba"
            for number in range(20)
        ]
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(task, "RUN_MIN", run_min)
            patched.setattr(task, "BATCH_MIN", 1)
            made.process(rows)
        assert [str(failure.error) for failure in failures] == ["a-7"]
        found.append({name: sorted(store.changes(name)) for name, store in cells.items()})
    assert found[0] == found[1]


def outcome(seed: int, *, batched: bool) -> list[Any]:
    """What the task of the chain sends, stores and can't process."""
    chance = random.Random(seed)
    failing = [name for name in FAILING if chance.random() < 0.4]
    (piece,) = (piece for piece in subtopologies(chain(chance, failing).graph) if piece.sinks)
    topics = sorted({topic for source in piece.sources for topic in source.topics})
    stores: dict[str, LoggedCells] = {}
    failures: list[Failure] = []
    found: list[Any] = []
    now_ms = 1_000
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(task, "RUN_MIN", 1 + seed % 4 if batched else 1 << 40)
        patched.setattr(task, "BATCH_MIN", 1)
        patched.setattr(task, "BATCH_MAX", chance.choice((7, 8_192)))
        for batch in range(BATCHES):
            made = task_of(piece, stores, failures)
            rows = [row for topic in topics for row in records(topic, chance, batch, now_ms)]
            chance.shuffle(rows)
            found.append(made.process(made.in_order(rows)) + made.commit())
            found.append(
                [
                    (failure.kind, failure.node, failure.row, str(failure.error))
                    for failure in failures
                ]
            )
            found += [(name, sorted(store.changes(name))) for name, store in sorted(stores.items())]
            found += [dict(store.items()) for _, store in sorted(stores.items())]
            found += [made.stream_time, dict(made.numbers)]
            now_ms += chance.choice((0, 5_000, 200_000))
    return found


def task_of(
    piece: Subtopology, stores: dict[str, LoggedCells], failures: list[Failure]
) -> StreamTask:
    def skipped(failure: Failure) -> list[OutputRow]:
        failures.append(failure)
        return []

    def cells(name: str) -> LoggedCells:
        return stores.setdefault(name, LoggedCells())

    return StreamTask(piece, 0, cells, SystemClock(), application_id="app", on_failure=skipped)


def chain(chance: random.Random, failing: Sequence[str]) -> Topology:
    """A stream that is joined with others, with tables or with itself, up to three times."""
    topology = Topology(key=Text(()), value=Text(failing))
    found, *streams = (topology.stream(f"stream-{number}") for number in range(4))
    tables = [topology.table(f"table-{number}") for number in range(2)]
    for step in range(chance.randint(1, 3)):
        join = joiner(step, failing)
        windows = within(chance.choice((1, 500, 20_000)))
        kinds = ["stream", "stream", "left", "table", "left table", "merge"]
        kinds += [] if step else ["self"]  # several of them make millions of results
        match chance.choice(kinds):
            case "stream":
                found = found.join(streams[step], join, windows)
            case "left":
                found = found.left_join(streams[step], join, windows)
            case "table":
                found = found.join(chance.choice(tables), join)
            case "left table":
                found = found.left_join(chance.choice(tables), join)
            case "self":
                found = found.join(found, join, windows)
            case "merge":
                found = found.merge(streams[step])
    found.to("out")
    return topology


def plus(left: Any, right: Any) -> str:
    return f"({left}+{right})"


def joiner(step: int, failing: Sequence[str]) -> Callable[[Any, Any], str | None]:
    def join(left: Any, right: Any) -> str | None:
        joined = plus(left, right)
        if "joiner" in failing and is_chosen(f"joiner {step}", joined):
            raise ValueError(f"{joined} in step {step}")
        return None if "null" in failing and is_chosen(f"null {step}", joined) else joined

    return join


def records(topic: str, chance: random.Random, batch: int, now_ms: int) -> list[InputRow]:
    step_ms = chance.choice((0, 1, 300, 3_000))
    found = []
    for number in range(chance.choice((0, 5, 30, 60))):
        key: bytes | None = b"key-%d" % chance.randrange(40)
        value: bytes | None = f"{topic} {chance.randrange(30)}".encode()
        if chance.random() < 0.01:
            key, value = chance.choice(((None, value), (key, None), (key, b"not read")))
        late_ms = chance.choice((1_000, 30_000, 100_000)) if chance.random() < 0.05 else 0
        time_ms = max(0, now_ms + number * step_ms - late_ms)
        found.append(InputRow(topic, 0, batch * 100 + number, time_ms, key, value))
    return found
