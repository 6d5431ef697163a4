"""Streams: a stateless job, a windowed count and a table join, each in `ottla streams run`.

Start: from the command to the first result. Speed: a topic is filled, and the time is taken until
every result is there. Latency: one order at a time, until its result is read.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import statistics
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import streams_job
from benchmarks.bench import Bench
from benchmarks.brokers import OTTLA, Broker, start_broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.processes import Spawned, ToolError, spawn
from benchmarks.rows.spark import python_of
from benchmarks.settings import Settings
from ottla.client import Admin, Consumer, Producer, Record

JOBS = ("stateless", "windowed count", "table join")
PARTITIONS = 2
KEYS = 1000
ORDERS_PART = 8
"""Of the records that a throughput row has."""
WARM_UP = 20_000
LATENCIES = 20
RESULT_S_MAX = 600.0
MARK = "OTTLA_BENCH_MARK"


class Job:
    """One job on a broker of its own, and all that it gives."""

    def __init__(self, bench: Bench, name: str, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.name = name
        self.broker: Broker = start_broker(OTTLA, folder / "broker", bench.commands)
        bench.after_row.callback(self.broker.remove)
        with Admin(self.servers) as admin:
            for topic in ("orders", "customers", "results"):
                admin.topics.create(topic, PARTITIONS)
        settings = {"isolation.level": "read_committed"}
        self._results: Consumer[bytes, bytes] = Consumer(
            self.servers, "results", auto_offset_reset="earliest", settings=settings
        )
        bench.after_row.callback(self._results.close)
        self._numbers = itertools.count()
        self._totals: dict[bytes | None, int] = {}
        with Producer(self.servers) as producer:
            for n in range(KEYS):
                producer.send("customers", b'{"name":"c%d"}' % n, key=b"key-%d" % n)
        command = [python_of(bench), "-m", "ottla.cli", "streams", "run", streams_job.__file__]
        command += ["-b", self.servers, "--state-dir", str(folder / "state")]
        command += ["--master", "local[2]", "--application-id", "bench"]
        self._mark = uuid.uuid4().hex
        environment = {"OTTLA_BENCH_JOB": name, MARK: self._mark}
        self.process: Spawned = spawn(command, log=folder / "log", env=environment)
        bench.after_row.callback(self.process.stop)

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    @property
    def cpu_s(self) -> float:
        """Of all processes that have its environment: those where tasks are at home are nobody's
        children any more."""
        words = f"{MARK}={self._mark}".encode()
        return sum(own_cpu_seconds(pid) for pid in processes_with(words))

    def send(self, count: int) -> None:
        with Producer(self.servers) as producer:
            for n in itertools.islice(self._numbers, count):
                producer.send(
                    "orders", b'{"v":%d,"item":"something"}' % n, key=b"key-%d" % (n % KEYS)
                )

    def wait(self, count: int) -> None:
        """For the results of the last `count` orders: all of them, or counts that add up."""
        found = 0
        for record in self._read():
            if self.name != "windowed count":
                found += 1
            else:
                total = int.from_bytes(record.value or b"", "big")
                found += total - self._totals.get(record.key, 0)
                self._totals[record.key] = total
            if found >= count:
                return

    def _read(self) -> Iterator[Record[bytes, bytes]]:
        deadline = time.monotonic() + RESULT_S_MAX
        while time.monotonic() < deadline and self.process.alive():
            record = self._results.poll(0.05)
            if record is not None:
                yield record
        raise ToolError(f"not all results are there:\n{self.process.log_tail()}")


class StreamsJobs:
    """Each job has a broker and a process of its own, for all rounds."""

    title = "Streams"

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._starts: dict[str, float] = {}

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name != OTTLA:
            return []
        figures: list[Figure] = []
        for each in JOBS:
            with self._running(bench, each) as job:
                figures += measured(job, bench.settings.small_count // ORDERS_PART)
                figures.append(cost(f"streams, {each}, start", "s", self._starts[each]))
        return figures

    @contextmanager
    def _running(self, bench: Bench, name: str) -> Iterator[Job]:
        """One at a time: two idle Sparks would be felt."""
        began = time.perf_counter()
        job = Job(bench, name, bench.directory / f"streams-{name.replace(' ', '-')}-{id(began)}")
        job.send(1)
        job.wait(1)
        self._starts[name] = time.perf_counter() - began
        job.send(WARM_UP)
        job.wait(WARM_UP)
        try:
            yield job
        finally:
            job.process.stop()


def measured(job: Job, count: int) -> list[Figure]:
    cpu_s = job.cpu_s
    seconds = timed(lambda: (job.send(count), job.wait(count)))
    spent_s = job.cpu_s - cpu_s
    latencies = []
    for _ in range(LATENCIES):
        latencies.append(timed(lambda: (job.send(1), job.wait(1))))
        time.sleep(0.1)
    title = f"streams, {job.name}"
    return [
        rate(f"{title}, {count:,} records", "records/s", count / seconds),
        cost(f"{title}, CPU of the job", "us/record", spent_s * 1e6 / count),
        cost(f"{title}, latency, median", "ms", statistics.median(latencies) * 1000),
    ]


def processes_with(words: bytes) -> Iterator[int]:
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if words in (each / "environ").read_bytes().split(b"\0"):
                yield int(each.name)


def own_cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
