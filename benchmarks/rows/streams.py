"""Streams: a stateless job, a windowed count and a table join, each in `ottla streams run`.

There is one broker, Ottla, new for each job. The columns are Ottla's streams on Spark and Kafka
Streams, both exactly once. Start: from the command to the result of an order that lay there. Speed:
the topic is filled, and the time is taken until every result is there. Latency: one order at a
time, until its result is read.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from benchmarks import apache_kafka, kafka_streams, streams_job
from benchmarks.bench import Bench
from benchmarks.brokers import OTTLA, start_broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.marks import Mark
from benchmarks.orders import Orders, long_count
from benchmarks.processes import ToolError, spawn
from benchmarks.rows.spark import python_of, with_archive
from benchmarks.settings import Settings

JOBS = ("stateless", "windowed count", "table join")
ORDERS_PART = 8
"""Of the records that a throughput row has."""
WARM_UP_PART = 4
"""Of those that are measured: both JVMs have compiled their hot code then."""
LATENCIES = 20
REST_S = (0.05, 0.25)
"""Between two orders, at random: commits come every 100 ms, and orders must not keep step."""


def conditions(settings: Settings) -> str:
    count = settings.small_count // ORDERS_PART
    return (
        f"`ottla streams run` on local[{kafka_streams.THREADS}] beside Kafka Streams "
        f"{apache_kafka.KAFKA_VERSION} with {kafka_streams.THREADS} threads, heap "
        f"{kafka_streams.HEAP} each, one at a time, both on an Ottla of their own; "
        f"exactly_once_v2, commit.interval.ms 100; {count:,} records after "
        f"{count // WARM_UP_PART:,} that are not measured; no round is discarded; "
        "CPU is the job's, without the broker"
    )


class StreamsJobs:
    """In each round every job gets its own broker and process, one at a time."""

    title = "Streams"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        """No round is discarded: each starts new processes and warms them up."""
        return 0, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name == OTTLA:
            with_archive(bench)
        else:
            kafka_streams.compiled(classes_of(bench))
        figures: list[Figure] = []
        for job in JOBS:
            with ExitStack() as stack:
                figures += Job(bench, name, job, stack).measured()
        return figures


class Job:
    """One job on its own broker, from its start on."""

    def __init__(self, bench: Bench, name: str, job: str, stack: ExitStack) -> None:
        self._count = bench.settings.small_count // ORDERS_PART
        self._title = f"streams, {job}"
        self._mark = Mark()
        folder = bench.directory / f"streams-{self._mark.value}"
        folder.mkdir()
        broker = start_broker(OTTLA, folder / "broker", bench.commands)
        stack.callback(broker.remove)
        self._orders = Orders(
            broker.bootstrap, count_of=long_count if job == "windowed count" else None
        )
        stack.callback(self._orders.close)
        self._orders.send(1)
        command = command_of(bench, name, job, broker.bootstrap, folder / "state")
        environment = {streams_job.WHICH: job, **self._mark.environment}
        start = time.perf_counter()
        self._process = spawn(command, log=folder / "log", env=environment)
        stack.callback(self._mark.end)
        stack.callback(self._process.stop)
        self._wait(1)
        self._start_s = time.perf_counter() - start

    def measured(self) -> list[Figure]:
        warm_up = self._count // WARM_UP_PART
        self._orders.send(warm_up)
        self._wait(warm_up)
        cpu_s = self._mark.cpu_s
        seconds = timed(lambda: self._through(self._count))
        cpu_us = (self._mark.cpu_s - cpu_s) * 1e6 / self._count
        latencies = []
        for _ in range(LATENCIES):
            latencies.append(timed(lambda: self._through(1)))
            time.sleep(random.uniform(*REST_S))
        title = self._title
        return [
            rate(f"{title}", "records/s", self._count / seconds, cpu_us=cpu_us),
            cost(f"{title}, latency, median", "ms", statistics.median(latencies) * 1000),
            cost(f"{title}, start", "s", self._start_s),
        ]

    def _through(self, count: int) -> None:
        self._orders.send(count)
        self._wait(count)

    def _wait(self, count: int) -> None:
        try:
            self._orders.wait(count, self._process.alive)
        except ToolError as error:
            raise ToolError(f"{self._title}: {error}\n{self._process.log_tail()}") from None


def command_of(bench: Bench, name: str, job: str, bootstrap: str, state: Path) -> list[str]:
    if name != OTTLA:
        return kafka_streams.command(classes_of(bench), job, bootstrap, state)
    words = [python_of(bench), "-m", "ottla.cli", "streams", "run", streams_job.__file__]
    words += ["-b", bootstrap, "--state-dir", str(state)]
    return [*words, "--master", f"local[{kafka_streams.THREADS}]", "--application-id", "bench"]


def classes_of(bench: Bench) -> Path:
    return bench.directory / "streams-classes"


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
