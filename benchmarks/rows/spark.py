"""Spark on Ottla: our source and sink beside Spark's own Kafka connector, and how Spark starts.

There is one broker, Ottla. The two columns are `format("ottla")` and `format("kafka")`; the CPU
time beside them is what Spark spends on a row, JVM and Python workers together, without the broker.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import apache_kafka, perf_tools
from benchmarks.bench import Bench, last_json, python_module
from benchmarks.brokers import OTTLA, Broker, start_broker
from benchmarks.figures import Figure, cost, rate
from benchmarks.processes import (
    ToolError,
    cpu_seconds,
    finish_tool,
    run_tool,
    started_tool,
)
from benchmarks.rows.throughput import size_name
from benchmarks.settings import LARGE_BYTES, SMALL_BYTES, Settings
from benchmarks.topics import create_topic, delete_topic

CONNECTOR = apache_kafka.REPOSITORY / ".cache" / "spark-kafka"
PARTITIONS = 2
JOBS = {"noop": "topic to noop", "window": "windowed count", "copy": "topic to topic"}
PER_S = 4
LATENCY_COUNT = 60
LATENCY_SKIP = 10
START_TIMEOUT_S = 180.0
ARCHIVE_S_MAX = 1800.0
# In a first round the JVM runs its bytecode uncompiled; these runs are not measured.
WARM_UP_RUNS = 2


def python_of(bench: Bench) -> str:
    """The interpreter of the Ottla that is measured: its compiled modules are in there."""
    program = Path(bench.commands[OTTLA](bench.directory, 0)[0])
    beside = program.parent / "python"
    return str(beside) if beside.exists() else python_module("x")[0]


def with_archive(bench: Bench) -> None:
    """Spark's class-data archive, where users have it: made now, or it would be made behind the
    first job, beside the second one."""
    run_tool([python_of(bench), "-m", "ottla.spark.class_data_archive"], timeout_s=ARCHIVE_S_MAX)


class Driver:
    """A spark_load process that takes jobs."""

    def __init__(self, bench: Bench, broker: Broker, name: str, stack: ExitStack) -> None:
        jars = ",".join(sorted(str(path) for path in CONNECTOR.glob("*.jar")))
        if name != OTTLA and not jars:
            raise ToolError("no connector: run tools/setup_test_clients.sh --maven")
        directory = tempfile.mkdtemp(prefix=f"spark-{name}-", dir=bench.directory)
        words = ["jobs", "--format", name, "--port", str(broker.port)]
        words += ["--directory", directory, "--jars", "" if name == OTTLA else jars]
        command = [python_of(bench), "-m", "benchmarks.spark_load", *words]
        self.process = stack.enter_context(started_tool(command, stdin=subprocess.PIPE))
        self.answer()

    def do(self, **request: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def answer(self) -> dict[str, Any]:
        """The next JSON line; what else is printed is kept for the error."""
        assert self.process.stdout is not None
        lines = []
        for line in self.process.stdout:
            if line.startswith("{"):
                result: dict[str, Any] = json.loads(line)
                return result
            lines.append(line)
        raise ToolError("Spark's driver ended:\n" + "".join(lines)[-2000:])

    @property
    def cpu_s(self) -> float:
        return cpu_seconds(self.process.pid)


@dataclass(slots=True)
class Stage:
    """The broker with its data, and the drivers; for all rounds of one row."""

    broker: Broker
    topics: dict[int, str] = field(default_factory=dict)
    drivers: dict[str, Driver] = field(default_factory=dict)


class OnSpark:
    """What the rows share: one broker, one warm driver for each format."""

    title = ""

    def __init__(self) -> None:
        self._stage: Stage | None = None

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def stage(self, bench: Bench) -> Stage:
        if self._stage is None:
            directory = bench.directory / f"spark-broker-{id(self)}"
            broker = start_broker(OTTLA, directory, bench.commands)
            bench.after_row.callback(broker.remove)
            bench.after_row.callback(self._leave)
            self._stage = Stage(broker)
        return self._stage

    def _leave(self) -> None:
        self._stage = None


class SparkJobs(OnSpark):
    """Trigger.AvailableNow over a topic that lies there: the time of the whole query."""

    title = "Spark jobs"

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        stage = self.stage(bench)
        for size in (SMALL_BYTES, LARGE_BYTES):
            if size not in stage.topics:
                stage.topics[size] = filled(bench, stage.broker, size)
        if name not in stage.drivers:
            driver = Driver(bench, stage.broker, name, bench.after_row)
            stage.drivers[name] = driver
            for _ in range(WARM_UP_RUNS):
                self._all(bench, stage, driver)
        return self._all(bench, stage, stage.drivers[name])

    def _all(self, bench: Bench, stage: Stage, driver: Driver) -> list[Figure]:
        return [
            self._one(bench, stage, driver, job, size)
            for job in JOBS
            for size in (SMALL_BYTES, LARGE_BYTES)
        ]

    def _one(self, bench: Bench, stage: Stage, driver: Driver, job: str, size: int) -> Figure:
        count = bench.settings.count(size)
        target = create_topic(stage.broker, "spark-out", partitions=PARTITIONS)
        before = driver.cpu_s
        done = driver.do(job=job, topic=stage.topics[size], target=target)
        cpu_us = (driver.cpu_s - before) * 1e6 / count
        delete_topic(stage.broker, target)
        if done["rows"] != count:
            raise ToolError(f"{job}: {done['rows']} of {count} rows were read")
        title = f"Spark, {JOBS[job]}, {size_name(size)}"
        return rate(title, "rows/s", count / done["seconds"], cpu_us=cpu_us)


def filled(bench: Bench, broker: Broker, size: int) -> str:
    topic = create_topic(broker, f"spark-{size}", partitions=PARTITIONS)
    count = bench.settings.count(size)
    perf_tools.produce(broker, topic, payloads=bench.payloads(size), count=count)
    return topic


class SparkLatency(OnSpark):
    """A record at a time through a query from topic to topic, which has nothing else to do."""

    title = "Spark micro-batches"

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        stage = self.stage(bench)
        if name not in stage.drivers:
            stage.drivers[name] = Driver(bench, stage.broker, name, bench.after_row)
            self._follow(stage, stage.drivers[name])
        latency, batch = self._follow(stage, stage.drivers[name])
        what = "Spark, topic to topic, one record"
        return [
            cost(f"{what}, end to end p50", "ms", latency["p50_ms"]),
            cost(f"{what}, end to end p99", "ms", latency["p99_ms"]),
            cost(f"{what}, micro-batch", "ms", batch["batch_ms"]),
        ]

    def _follow(self, stage: Stage, driver: Driver) -> tuple[dict[str, Any], dict[str, Any]]:
        topic, target = (create_topic(stage.broker, f"spark-{end}") for end in ("in", "out"))
        driver.do(job="follow", topic=topic, target=target)
        words = ("--port", str(stage.broker.port), "--count", str(LATENCY_COUNT))
        load = "benchmarks.librdkafka_load"
        reading = ("--topic", target, "--skip", str(LATENCY_SKIP))
        consume = python_module(load, "consume-latency", *words, *reading)
        writing = ("--topic", topic, "--rate", str(PER_S))
        with started_tool(consume) as consumer:
            run_tool(
                python_module(load, "produce-rate", *words, *writing), timeout_s=START_TIMEOUT_S
            )
            latency = last_json(finish_tool(consumer, timeout_s=START_TIMEOUT_S).output)
        return latency, driver.do(job="stop")


class SparkStart:
    """From the start of the process to the answer of the first job; nothing else runs."""

    title = "Spark start"

    def rounds(self, settings: Settings) -> tuple[int, int]:
        return settings.discarded_rounds, settings.rounds

    def measure(self, bench: Bench, name: str) -> list[Figure]:
        if name != OTTLA:
            return []
        python, cache = python_of(bench), str(bench.directory / "spark-archive")
        making = [python, "-m", "ottla.spark.class_data_archive"]
        run_tool(making, timeout_s=ARCHIVE_S_MAX, env={"OTTLA_CACHE_DIR": cache})
        ways = {
            "Spark's own launcher": ("stock", {"OTTLA_SPARK_ARCHIVE": "off"}),
            "our gateway": ("ours", {"OTTLA_SPARK_ARCHIVE": "off"}),
            "our gateway, with its archive": ("ours", {"OTTLA_CACHE_DIR": cache}),
        }
        return [
            figure
            for title, (launcher, environment) in ways.items()
            for figure in self._started(python, launcher, environment, title)
        ]

    def _started(
        self, python: str, launcher: str, environment: dict[str, str], title: str
    ) -> list[Figure]:
        command = [python, "-m", "benchmarks.spark_load", "start", "--launcher", launcher]
        start = time.perf_counter()
        with started_tool(command, env=environment) as process:
            assert process.stdout is not None
            output = ""
            for line in process.stdout:
                output += line
                if line.startswith("{"):
                    break
            seconds, cpu_s = time.perf_counter() - start, cpu_seconds(process.pid)
            last_json(output)
        return [
            cost(f"Spark's first job, {title}", "s", seconds),
            cost(f"CPU until then, {title}", "s", cpu_s),
        ]
