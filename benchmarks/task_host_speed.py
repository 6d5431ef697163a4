"""python -m benchmarks.task_host_speed: what a record costs in the host of a SQL join's tasks.

Builds the cells that Spark's workers send for the statements of the row `sql-statements`, and runs
them in a TaskHost: order, operators, state file, changelogs and packed results, without Spark and
broker. Time is the process's own CPU time, the best of several rounds.

    .venv/bin/python -m benchmarks.task_host_speed
    .venv/bin/python -m benchmarks.task_host_speed --only "stream-stream" --profile
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import hashlib
import pstats
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from benchmarks.rows.statements import ORDERS, STATEMENTS
from ottla.engine.packed_rows import RECORDS_MAX, unpack_output_rows
from ottla.engine.subtopologies import subtopologies
from ottla.engine.task_host import TaskHost
from ottla.engine.task_plan import TaskPlan
from ottla.sql import SqlTestDriver
from ottla.sql.lowering import build_graph

BEGIN_MS = 1_763_500_000_000
PER_MS = 100
KEYS = 1000
JOINS = {
    "stream-table join, 1,000 keys": KEYS,
    "stream-table join, 2,000,000 keys": 2_000_000,
    "stream-stream join": KEYS,
}


@dataclass(slots=True)
class Cells:
    """Cells of one topic's partition 0, whose offsets go on from batch to batch."""

    topic: str
    offset: int = 0

    def of(self, keys: list[bytes], values: list[bytes], first_ms: int) -> list[bytes]:
        made = []
        for start in range(0, len(keys), RECORDS_MAX):
            count = len(keys[start : start + RECORDS_MAX])
            times = [first_ms + (start + number) // PER_MS for number in range(count)]
            arrays = {
                "topic": pa.repeat(pa.scalar(self.topic), count),
                "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
                "offset": pa.array(range(self.offset, self.offset + count), pa.int64()),
                "timestamp": pa.array(times, pa.int64()),
                "key": pa.array(keys[start : start + count], pa.binary()),
                "value": pa.array(values[start : start + count], pa.binary()),
            }
            batch = pa.RecordBatch.from_pydict(arrays)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            made.append(bytes(sink.getvalue()))
            self.offset += count
        return made


def main() -> None:
    given = arguments()
    for statement in STATEMENTS:
        if statement.title in JOINS and given.only in statement.title:
            with tempfile.TemporaryDirectory() as folder:
                HostMeasurement(statement.title, statement.text, folder, given).run()


class HostMeasurement:
    def __init__(self, title: str, text: str, folder: str, given: argparse.Namespace) -> None:
        self._title = title
        self._given = given
        self._folder = str(Path(folder, "state"))
        self._host = TaskHost(plan_of(text, folder))
        self._batch = -1
        self._now_ms = BEGIN_MS
        self._orders, self._payments = Cells("orders"), Cells("payments")
        self._numbers = 0
        self._digests: dict[str, hashlib._Hash] = defaultdict(hashlib.sha256)

    def run(self) -> None:
        keys = min(JOINS[self._title], self._given.table)
        streams = self._title == "stream-stream join"
        if not streams:
            self._load(keys)
        spent: list[float] = []
        for number in range(self._given.rounds):
            cells = self._cells(pairs=streams)
            profiled = self._given.profile and number == self._given.rounds - 1
            spent.append(self._timed(cells, profiled))
        best = min(spent) / self._given.count * 1e6
        what = "pair" if streams else "record"
        digests = " ".join(digest.hexdigest()[:6] for _, digest in sorted(self._digests.items()))
        print(f"{self._title:36} {best:8.2f} us per {what}, results {digests}", flush=True)
        self._host.close()

    def _load(self, keys: int) -> None:
        numbers = range(keys)
        spent = 0.0
        cells_of = Cells("customers")
        portion = 500_000
        for first in range(0, keys, portion):
            some = numbers[first : first + portion]
            cells = cells_of.of(
                [b"key-%d" % n for n in some], [b'{"name":"c%d"}' % n for n in some], BEGIN_MS
            )
            last = first + portion >= keys
            spent += self._timed(cells, self._given.profile and keys > KEYS and last)
        self._now_ms += portion // PER_MS
        if keys > KEYS:
            print(f"{'the table of ' + f'{keys:,}':36} {spent / keys * 1e6:8.2f} us per row")

    def _cells(self, *, pairs: bool) -> list[bytes]:
        count, first = self._given.count, self._numbers
        numbers = range(first, first + count)
        self._numbers += count
        keys = [b"key-%d" % (n if pairs else n % KEYS) for n in numbers]
        orders = [b'{"v":%d,"item":"something"}' % n for n in numbers]
        cells = self._orders.of(keys, orders, self._now_ms)
        if pairs:
            paid = [b'{"paid":%d}' % n for n in numbers]
            cells += self._payments.of(keys, paid, self._now_ms)
        self._now_ms += count // PER_MS
        return cells

    def _timed(self, cells: list[bytes], profiled: bool) -> float:
        self._batch += 1
        gc.collect()
        profile = cProfile.Profile(time.process_time, builtins=False)
        if profiled:
            profile.enable()
        began = time.process_time()
        sent = self._host.run(self._folder, self._batch, 0, cells)
        seconds = time.process_time() - began
        profile.disable()
        if profiled:
            pstats.Stats(profile).sort_stats(self._given.sort).print_stats(self._given.lines)
        rows: dict[str, list[bytes]] = defaultdict(list)
        for cell in sent:
            for row in unpack_output_rows(cell):
                rows[row[0]].append(repr(row).encode())
        for topic, found in rows.items():
            # Changelogs have one record for each key, in any order.
            ordered = sorted(found) if topic.endswith("-changelog") else found
            self._digests[topic].update(b"".join(ordered))
        return seconds


def plan_of(text: str, folder: str) -> TaskPlan:
    with SqlTestDriver() as driver:
        driver.execute(f"{ORDERS}{text}".replace("PARTITIONS=2", "PARTITIONS=1"))
        (plan,) = driver.engine.state.plans.values()
        (piece,) = subtopologies(build_graph(plan))
    return TaskPlan(piece, "bench", 1, "unused:0", folder=folder, caching=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--only", default="", help="part of a statement's title")
    add("--count", type=int, default=200_000, help="orders of a batch")
    add("--table", type=int, default=2_000_000, help="rows of the large table")
    add("--rounds", type=int, default=5, help="batches; the best counts")
    add("--profile", action="store_true", help="of the last batch")
    add("--lines", type=int, default=35)
    add("--sort", default="tottime", help="as pstats does")
    return parser.parse_args()


if __name__ == "__main__":
    main()
