"""What a task that moves costs, and a lost executor, on a Spark cluster with two executors.

    python -m benchmarks.executor_loss --keys 500000 [--s3]

A standalone cluster of this machine: one worker, two executors with a core each. An application
counts records by key, in two tasks. All keys are sent once, then again in a trickle of a few for
each partition. Then an executor is killed (SIGKILL), as often as it says; Spark starts another.
What is printed is how long batches take, before and behind that, and at the end whether each key
was counted as often as it was sent. With `--s3` the state is on moto's server, with no shared disk.
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
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from ottla.streams import Long, String, Topology  # noqa: E402
from ottla.streams.run.application import Application  # noqa: E402
from ottla.testing import LocalCluster  # noqa: E402
from s3_server import CREDENTIALS, s3_server, s3_uri  # noqa: E402
from spark_daemons import SHORT_LIVED, spark_cluster  # noqa: E402

PATIENCE_S = 900.0
TRICKLE = 40
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
        config: dict[str, object] = {
            **SPARK,
            "statestore.local.dir": str(folder / "local"),
            "statestore.memory.max.bytes": given.memory_mib << 20,
        }
        if given.s3:
            config["state.dir"] = s3_uri(all_.enter_context(s3_server(folder)), "apps")
        master = all_.enter_context(spark_cluster(folder, cores=2))
        topology = Topology(key=String(), value=String())
        counts = topology.stream("in").group_by_key().count(store="counts")
        counts.to_stream().to("counted", value=Long())
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
        measure(application, broker, given.keys, given.kills)


def measure(application: Application, broker: LocalCluster, keys: int, kills: int) -> None:
    sent: Counter[int] = Counter()
    draw = random.Random(1)
    watch = iter(_latest(broker))
    began = time.perf_counter()
    _send(broker, sent, range(keys))
    _await(application, watch, sent)
    _say("all keys", s=round(time.perf_counter() - began, 1), keys=keys)
    for number in range(kills + 1):
        times = []
        for _ in range(8):
            began = time.perf_counter()
            _send(broker, sent, (draw.randrange(keys) for _ in range(TRICKLE)))
            _await(application, watch, sent)
            times.append(round(time.perf_counter() - began, 2))
        _say("trickle: from producer to reader", s=times)
        if number < kills:
            killed = _executors()[0]
            os.kill(killed, signal.SIGKILL)
            began = time.perf_counter()
            _send(broker, sent, (draw.randrange(keys) for _ in range(TRICKLE)))
            _await(application, watch, sent)
            _say("an executor was killed", s=round(time.perf_counter() - began, 2), process=killed)
    _say("all counts are right", keys=len(sent), records=sum(sent.values()))


def _send(broker: LocalCluster, sent: Counter[int], numbers: range | Iterator[int]) -> None:
    with broker.producer() as producer:
        for number in numbers:
            sent[number] += 1
            producer.send("in", b"v" * 20, key=_key(number))
        producer.flush()


def _key(number: int) -> bytes:
    return b"%020d" % number


Watch = Iterator[Counter[int]]


def _await(application: Application, watch: Watch, sent: Counter[int]) -> None:
    """Until the last count of each key is what was sent; a larger one is a fault."""
    deadline = time.monotonic() + PATIENCE_S
    for found in watch:
        if found == sent:
            return
        assert time.monotonic() < deadline, (application.metrics(), len(found), len(sent))
        assert application.error is None, application.error


def _latest(broker: LocalCluster) -> Iterator[Counter[int]]:
    """The counts as readers see them, again and again; they go up, one record at a time."""
    found: Counter[int] = Counter()
    settings = {"isolation.level": "read_committed"}
    with broker.consumer("counted", settings=settings) as consumer:
        while True:
            record = consumer.poll(0.02)
            if record is None:
                yield found
                continue
            number, count = int(record.key or b""), int.from_bytes(record.value or b"", "big")
            assert count > found[number], f"key {number}: {count} behind {found[number]}"
            found[number] = count


def _executors() -> list[int]:
    """Kills processes of the cluster that this process has started."""
    ours = {os.getpid()}
    found: list[int] = []
    processes = sorted(int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit())
    for _ in range(3):
        for process in processes:
            with contextlib.suppress(OSError):
                words = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
                if int(words[1]) in ours and process not in ours:
                    ours.add(process)
                    command = Path(f"/proc/{process}/cmdline").read_bytes()
                    if b"CoarseGrainedExecutorBackend" in command:
                        found.append(process)
    return found


def _say(what: str, **figures: object) -> None:
    print(json.dumps({"what": what, **figures}), flush=True)


if __name__ == "__main__":
    main()
