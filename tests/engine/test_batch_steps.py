"""Batch steps do what single steps do: the same results and the same state, on random records."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.engine import task
from ottla.engine.cells import LoggedCells
from ottla.engine.failures import FailureKind, log_and_continue
from ottla.engine.packed_rows import HEADERS, unpacked_batch
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task import StreamTask
from ottla.engine.task_plan import TaskPlan
from ottla.sql import SqlTestDriver
from ottla.sql.lowering import build_graph, row_serdes

SOURCES = """
CREATE STREAM orders (id STRING KEY, v INT, item STRING)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE TABLE customers (id STRING PRIMARY KEY, name STRING)
  WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE TABLE tagged (id STRING PRIMARY KEY, tags ARRAY<STRING>)
  WITH (KAFKA_TOPIC='customers', VALUE_FORMAT='JSON');
CREATE STREAM payments (id STRING KEY, paid INT, share DOUBLE)
  WITH (KAFKA_TOPIC='payments', VALUE_FORMAT='JSON');
"""
STATEMENTS = {
    "table": """SELECT o.id AS id, o.v AS v, c.name AS name FROM orders o
      JOIN customers c ON o.id = c.id""",
    "left table": """SELECT o.id AS id, o.v + 1 AS v, UCASE(c.name) AS name, o.ROWTIME AS moment
      FROM orders o LEFT JOIN customers c ON o.id = c.id WHERE o.v > 3""",
    "filtered": """SELECT o.id AS id, o.item AS item, c.name AS name FROM orders o
      JOIN customers c ON o.id = c.id WHERE c.name <> 'c3'""",
    "array": """SELECT o.id AS id, o.v AS v, c.tags AS tags FROM orders o
      JOIN tagged c ON o.id = c.id""",
    "offsets": """SELECT o.id AS id, o.ROWOFFSET AS place, c.name AS name FROM orders o
      JOIN customers c ON o.id = c.id""",
    "streams": """SELECT o.id AS id, o.v AS v, p.paid AS paid, p.share AS share FROM orders o
      JOIN payments p WITHIN 20 SECONDS GRACE PERIOD 1 SECOND ON o.id = p.id""",
    "left streams": """SELECT o.id AS id, o.v AS v, p.paid AS paid FROM orders o
      LEFT JOIN payments p WITHIN 20 SECONDS GRACE PERIOD 1 SECOND ON o.id = p.id""",
}
BATCHES = 3


@pytest.fixture(scope="module")
def plans() -> dict[str, TaskPlan]:
    found = {}
    for name, statement in STATEMENTS.items():
        with SqlTestDriver() as driver:
            driver.execute(f"{SOURCES} CREATE STREAM results AS {statement};")
            (plan,) = driver.engine.state.plans.values()
            (piece,) = subtopologies(build_graph(plan))
        handlers = {FailureKind.DESERIALIZATION: log_and_continue}
        found[name] = TaskPlan(piece, "app", 1, "nobody:1", caching=False, on_failure=handlers)
    return found


@pytest.mark.parametrize("name", STATEMENTS)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=8, deadline=None)
def test_results_and_state_are_those_of_single_records(
    plans: dict[str, TaskPlan], name: str, seed: int
) -> None:
    single = outcome(plans[name], seed, run_min=1 << 40)
    assert outcome(plans[name], seed, run_min=1) == single
    assert outcome(plans[name], seed, run_min=task.RUN_MIN) == single


@pytest.mark.parametrize("name", ["table", "left table", "streams"])
def test_regular_records_are_processed_in_batches(plans: dict[str, TaskPlan], name: str) -> None:
    """The test above would hold if nothing ever were."""
    made = plans[name].task(0, lambda _: LoggedCells())
    alone: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(made, "_process_each", lambda rows, records: alone.append(len(rows)))
        made.process_packed([cell("orders", random.Random(1), 200, 0, 1_000, odd=False)])
    assert made.stream_time >= 1_000
    assert not alone


def outcome(plan: TaskPlan, seed: int, *, run_min: int) -> list[Any]:
    """What tasks send and store in some batches, as one starts with what the one before left."""
    chance = random.Random(seed)
    odd = chance.random() < 0.7
    topics = sorted({topic for source in plan.subtopology.sources for topic in source.topics})
    stores: dict[str, LoggedCells] = {}
    offsets = dict.fromkeys(topics, 0)
    found: list[Any] = []
    now_ms = 1_000
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(task, "RUN_MIN", run_min)
        patched.setattr(row_serdes, "WRITTEN_MIN", 1 if run_min == 1 else row_serdes.WRITTEN_MIN)
        for _ in range(BATCHES):
            made = plan.task(0, lambda name: stores.setdefault(name, LoggedCells()))
            cells = []
            for topic in topics:
                for _ in range(chance.randrange(3)):
                    count = chance.choice((1, 30, 100, 700))
                    cells.append(cell(topic, chance, count, offsets[topic], now_ms, odd=odd))
                    offsets[topic] += count
            chance.shuffle(cells)
            found.append(sent(made, cells))
            found += [
                (name, sorted(cells_of.changes(name))) for name, cells_of in sorted(stores.items())
            ]
            found += [dict(cells_of.items()) for _, cells_of in sorted(stores.items())]
            found += [made.stream_time, dict(made.numbers)]
            now_ms += chance.choice((0, 5_000, 200_000))
    return found


def sent(made: StreamTask, cells: list[bytes]) -> list[Any]:
    rows: list[Any] = []
    for packed in made.process_packed(cells):
        batch = unpacked_batch(packed)
        headers = [None] * batch.num_rows
        if "headers" in batch.schema.names:
            headers = [given or None for given in batch.column("headers").to_pylist()]
        names = sorted(set(batch.schema.names) - {"headers"})
        columns = [batch.column(name).to_pylist() for name in names]
        rows += zip(*columns, headers, strict=True)
    return [*rows, made.commit()]


def cell(
    topic: str, chance: random.Random, count: int, first: int, now_ms: int, *, odd: bool
) -> bytes:
    """Packed records of one partition; `odd`: some are late, lack a key or value, are not JSON, or
    have headers."""
    step = chance.choice((0, 0.02, 40))
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    times = []
    headers: list[Any] = []
    kinds = chance.sample(("key", "value", "late", "bad", "header", "wide"), 2) if odd else []
    for n in range(count):
        key: bytes | None = b"key-%d" % chance.randrange(200)
        value: bytes | None = {
            "orders": b'{"v":%d,"item":"x\\n\\u00e9"}' % (n % 9),
            "customers": b'{"name":"c%d","tags":["a","%d"]}' % (n % 5, n),
            "payments": b'{"paid":%d,"share":%d.5}' % (n, n),
        }[topic]
        time_ms = now_ms + int(n * step)
        kind = chance.choice(kinds) if kinds and chance.random() < 0.02 else ""
        key = None if kind == "key" else key
        value = None if kind == "value" else value
        value = b"not JSON" if kind == "bad" else value
        value = b'{"v":null,"V2":1}' if kind == "wide" else value
        times.append(max(0, time_ms - 100_000) if kind == "late" else time_ms)
        headers.append([{"key": "h", "value": b"1"}] if kind == "header" else None)
        keys.append(key)
        values.append(value)
    arrays = {
        "topic": pa.repeat(pa.scalar(topic), count),
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "offset": pa.array(range(first, first + count), pa.int64()),
        "timestamp": pa.array(times, pa.int64()),
        "key": pa.array(keys, pa.binary()),
        "value": pa.array(values, pa.binary()),
        "headers": pa.array(headers, HEADERS),
    }
    batch = pa.RecordBatch.from_pydict(arrays)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
