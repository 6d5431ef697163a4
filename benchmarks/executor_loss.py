"""What a task that moves costs, and a lost executor, on a Spark cluster with two executors.

    python -m benchmarks.executor_loss --keys 2000000 --value-bytes 480 [--s3]

A standalone cluster of this machine: one worker, two executors with a core each. An application
counts records by key and keeps the last value of each, in two tasks; a key takes about 50 bytes of
state and its value. All keys are sent once, then again in a trickle of a few for each partition.
Then, in turn, one executor is lost (SIGKILL at some moment of a batch; Spark starts another), or
its machine (its host processes are killed, too, and the local copies that no process has open are
deleted), or both machines. What is printed is how long batches take, before and behind that, and at
the end whether each key was counted as often as it was sent. With `--s3` the state is on moto's
server, with no shared disk.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ottla.engine.local_copy import UNUSED_S_MAX, delete_unused  # noqa: E402
from ottla.engine.state_folder import StateFolder, joined, state_folder  # noqa: E402
from ottla.streams import Bytes, KStream, Topology  # noqa: E402
from ottla.streams.run.application import Application  # noqa: E402
from ottla.testing import LocalCluster  # noqa: E402
from s3_server import CREDENTIALS, s3_server, s3_uri  # noqa: E402
from spark_daemons import SHORT_LIVED, spark_cluster  # noqa: E402

PATIENCE_S = 3600.0
TRICKLE = 40
TRICKLES = 8
COUNT_BYTES = 8
NO_COUNT = bytes(COUNT_BYTES)
SPARK = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.task.maxFailures": "8",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": " ".join(SHORT_LIVED),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--value-bytes", type=int, default=20)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--memory-mib", type=int, default=512)
    parser.add_argument("--s3", action="store_true")
    given = parser.parse_args()
    os.environ |= {"OTTLA_SPARK_ARCHIVE": "off", **CREDENTIALS}
    with tempfile.TemporaryDirectory(prefix="ottla-loss-") as name, contextlib.ExitStack() as all_:
        folder = Path(name)
        broker = all_.enter_context(LocalCluster())
        broker.create_topic("in", partitions=2)
        broker.create_topic("counted", partitions=2)
        place = str(folder / "state")
        config: dict[str, object] = {
            **SPARK,
            "statestore.local.dir": str(folder / "local"),
            "statestore.memory.max.bytes": given.memory_mib << 20,
        }
        if given.s3:
            place = s3_uri(all_.enter_context(s3_server(folder)), "apps")
            config["state.dir"] = place
        master = all_.enter_context(spark_cluster(folder, cores=2))
        topology = Topology(key=Bytes(), value=Bytes())
        _count(topology)
        application = all_.enter_context(
            Application(
                topology,
                application_id="loss",
                bootstrap_servers=broker.bootstrap_servers,
                state_dir=folder / "state",
                master=master,
                config=config,
            )
        )
        application.start()
        run = Run(application, broker, given.keys, given.value_bytes)
        tasks = state_folder(joined(place, "loss", "0", "tasks"))
        measure(run, given.kills, tasks, folder / "local")


def _count(topology: Topology) -> None:
    rows: KStream[bytes, bytes] = topology.stream("in")
    counts = rows.group_by_key().aggregate(lambda: NO_COUNT, _add, store="counts")
    counts.to_stream().map_values(lambda seen: seen[:COUNT_BYTES]).to("counted")


def _add(_: bytes, value: bytes, seen: bytes) -> bytes:
    return (int.from_bytes(seen[:COUNT_BYTES]) + 1).to_bytes(COUNT_BYTES) + value


def measure(run: Run, kills: int, tasks: StateFolder, local: Path) -> None:
    began = time.perf_counter()
    run.send(range(run.keys))
    run.await_counts()
    filled_s = round(time.perf_counter() - began, 1)
    _say("all keys", s=filled_s, keys=run.keys, state_mib=_size(tasks) >> 20)
    for number in range(kills + 1):
        _say("trickle: from producer to reader", s=[run.trickle() for _ in range(TRICKLES)])
        if number < kills:
            loss = list(LOSSES)[number % len(LOSSES)]
            _say(loss, s=run.trickle(partial(LOSSES[loss], local)))
    _say("all counts are right", keys=run.keys, records=sum(run.sent))


def _lose_executor(_: Path) -> None:
    time.sleep(random.uniform(0.2, 2.0))
    os.kill(random.choice(_executors()), signal.SIGKILL)


def _lose_machine(local: Path, count: int = 1) -> None:
    time.sleep(random.uniform(0.2, 2.0))
    executors = _executors()
    for executor in random.sample(executors, min(count, len(executors))):
        hosts = _hosts(executor)
        for process in (executor, *hosts):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
    time.sleep(0.2)
    delete_unused(local, time.time() + 2 * UNUSED_S_MAX)


LOSSES: dict[str, Callable[[Path], None]] = {
    "one executor is lost": _lose_executor,
    "one machine is lost": _lose_machine,
    "both machines are lost": partial(_lose_machine, count=2),
}


class Run:
    """`sent` and `found`: how often a key was sent, and its last count as readers see it."""

    def __init__(
        self, application: Application, broker: LocalCluster, keys: int, value_bytes: int
    ) -> None:
        self.keys = keys
        self.sent = array("q", bytes(8 * keys))
        self._found = array("q", self.sent)
        self._behind = 0
        self._application = application
        self._broker = broker
        self._draw = random.Random(1)
        self._value_bytes = value_bytes
        self._reader = self._reads()

    def trickle(self, meanwhile: Callable[[], None] = lambda: None) -> float:
        """Seconds from the producer to the reader."""
        began = time.perf_counter()
        self.send([self._draw.randrange(self.keys) for _ in range(TRICKLE)])
        meanwhile()
        self.await_counts()
        return round(time.perf_counter() - began, 2)

    def send(self, numbers: Sequence[int]) -> None:
        with self._broker.producer() as producer:
            for number in numbers:
                self.sent[number] += 1
                value = self._draw.randbytes(self._value_bytes)
                producer.send("in", value, key=b"%020d" % number)
            producer.flush()
        self._behind += len(numbers)

    def await_counts(self) -> None:
        """Until the last count of each key is what was sent; a larger one is a fault."""
        deadline = time.monotonic() + PATIENCE_S
        while self._behind:
            next(self._reader)
            assert time.monotonic() < deadline, (self._application.metrics(), self._behind)
            assert self._application.error is None, self._application.error
        assert self._found == self.sent

    def _reads(self) -> Iterator[None]:
        settings = {"isolation.level": "read_committed"}
        with self._broker.consumer("counted", settings=settings) as consumer:
            while True:
                record = consumer.poll(0.02)
                if record is None:
                    yield
                    continue
                number, count = int(record.key or b""), int.from_bytes(record.value or b"")
                before = self._found[number]
                assert before < count <= self.sent[number], f"key {number}: {count} behind {before}"
                self._found[number] = count
                self._behind -= count - before


def _size(tasks: StateFolder) -> int:
    """The bytes of all files, which may be more than those of the state."""
    queries = map(tasks.child, tasks.names())
    folders = [query.child(task) for query in queries for task in query.names()]
    return sum(file.size for folder in folders for file in folder.files())


def _executors() -> list[int]:
    """Those of the cluster that this process has started."""
    ours, processes = {os.getpid()}, _processes()
    for _ in range(3):
        ours |= {process.number for process in processes if process.parent in ours}
    return [
        process.number
        for process in processes
        if process.number in ours and b"CoarseGrainedExecutorBackend" in process.command
    ]


def _hosts(executor: int) -> list[int]:
    prefix = f"streams-{executor}-"
    return [process.number for process in _processes() if process.name.startswith(prefix)]


class _Process(NamedTuple):
    number: int
    parent: int
    name: str
    command: bytes


def _processes() -> list[_Process]:
    found: list[_Process] = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError):
                name, _, words = (path / "stat").read_text().partition("(")[2].rpartition(")")
                command = (path / "cmdline").read_bytes()
                found.append(_Process(int(path.name), int(words.split()[1]), name, command))
    return found


def _say(what: str, **figures: object) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


if __name__ == "__main__":
    main()
