"""One run: a broker, a Spark job that is killed at moments which a seed has chosen, then the facts.

A run is a list of lives of the job. Each ends with its fault: the job dies at a point of the sink's
work, or by somebody else's hand, or is stopped and goes on as a zombie beside the next. The last
life has none; when all records are through, the target topic is read.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from compat_brokers import Broker, start_broker
from compat_confluent import make_topic
from delivery_log import Batch, batches_of, committed, open_producers
from delivery_spark_points import DIE, POINTS, WHO, family, is_python_worker, kill

from ottla.client import Producer
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

HERE = Path(__file__).parent
JOB = HERE / "delivery_spark_job.py"
PARTITIONS = 3
RECORDS = 150  # for each life: five batches and more
AT_ONCE = 30
LIFE_S_MAX = 300.0
LAST_LIVES_MAX = 3
TICK_S = 0.1
BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class Life:
    """How a life of the job ends, and how it was led."""

    kind: str
    """point, worker, driver, all, freeze; with `broker` the broker is killed as well."""
    point: str = ""
    who: str = ""
    hit: int = 1
    batches: int = 1
    """How many batches it does before it is killed, or frozen."""
    delay_s: float = 0.0
    master: str = "local[2]"
    shuffled: int = 0
    """Into so many tasks: another number in the next life."""
    broker: bool = False
    home: int = 0
    """Of Streams: the process where a task is at home dies after so many records."""
    lost: bool = False
    """Of Streams: it begins without the state directory, as on another machine."""

    def __str__(self) -> str:
        what = f"{self.who} at '{self.point}' {self.hit}" if self.point else self.kind
        began = "without its state, " if self.lost else ""
        return f"{began}{what}{' and the broker' if self.broker else ''} ({self.master})"


def lives(seed: int, count: int, *, brokers: bool = False, zombies: bool = False) -> list[Life]:
    """What the seed alone decides."""
    chance = random.Random(f"spark {seed}")
    points = chance.sample(sorted(POINTS), len(POINTS))
    found = []
    for number in range(count):
        shape = {
            "master": chance.choice(["local[2]", "local[2,4]"]),
            "shuffled": chance.choice([0, 0, 2, 5]),
            "broker": brokers and chance.random() < 0.3,
            "batches": chance.randrange(1, 4),
            "delay_s": chance.uniform(0, 0.3),
        }
        kind = chance.choice(["point", "point", "point", "worker", "driver", "all"])
        if number < 2:
            kind = "point"  # each run has at least two of these, and they are not the same
        elif zombies and chance.random() < 0.2:
            kind = "freeze"
        if kind == "point":
            who = chance.choice(WHO)
            found.append(
                Life(kind, points[number % len(points)], who, chance.randrange(1, 4), **shape)  # type: ignore[arg-type]
            )
        else:
            found.append(Life(kind, **shape))  # type: ignore[arg-type]
    return found


@dataclass(slots=True)
class SparkRun:
    seed: int
    plan: list[Life]
    directory: Path
    delivery: str = "exactly_once"
    job: Path = JOB
    say: Callable[[str], None] = print
    done: Counter[str] = field(default_factory=Counter)
    expected: list[str] = field(default_factory=list)
    found: list[Batch] = field(default_factory=list)
    _broker: Broker = field(init=False)
    _frozen: list[int] = field(default_factory=list)

    def __call__(self) -> list[str]:
        """What is wrong with the target topic, when all is over."""
        self.say(f"spark, {self.delivery}: OTTLA_SEED={self.seed}, {len(self.plan)} lives")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._broker = start_broker(self.directory / "broker", BROKER_SETTINGS)
        try:
            for topic in ("source", "target"):
                make_topic(self._broker.bootstrap, topic, PARTITIONS)
            for number, life in enumerate(self.plan):
                self.say(f"  {life}")
                self._live(life, number)
            self._come_through()
            return self._wrong()
        finally:
            if self._broker.alive():
                self._broker.kill()

    def _come_through(self) -> None:
        """The last life. Spark may fail to start on a busy machine: it is then started again."""
        for number in range(len(self.plan), len(self.plan) + LAST_LIVES_MAX):
            self._live(Life("none"), number)
            if self._is_through():
                return
        last = self.directory / f"life-{number}.log"
        raise AssertionError(f"the job fails by itself:\n{tail(last)}")

    def _live(self, life: Life, number: int) -> None:
        if number <= len(self.plan):
            self._fill(number)
        log = self.directory / f"life-{number}.log"
        with log.open("wb") as output:
            job = self._start(life, output)
            try:
                self._wait(life, job, log)
                if life.kind == "freeze" and job.poll() is None:
                    self._frozen = family(job.pid)
                    for pid in self._frozen:
                        kill(pid, signal.SIGSTOP)
                    self.done["freeze"] += 1
                    return
            finally:
                if job.pid not in self._frozen:
                    end(family(job.pid))
                    job.wait()
                    self._thaw_and_end(job.pid)

    def _fill(self, number: int) -> None:
        with Producer(self._broker.bootstrap, value=str) as producer:
            for record in range(RECORDS):
                text = f"{number}:{record}"
                producer.send("source", text, partition=record % PARTITIONS)
                self.expected.append(text)

    def _start(self, life: Life, output: IO[bytes]) -> subprocess.Popen[bytes]:
        given = {
            "servers": self._broker.bootstrap,
            "source": "source",
            "target": "target",
            "master": life.master,
            "shuffled": life.shuffled,
            "at_once": AT_ONCE,
            "delivery": self.delivery,
            "checkpoint": str(self._checkpoint(life)),
        }
        return subprocess.Popen(
            [sys.executable, str(self.job), json.dumps(given)],
            stdout=output,
            stderr=output,
            env=self._environment(life),
        )

    def _checkpoint(self, life: Life) -> Path:
        return self.directory / "checkpoint"

    def _environment(self, life: Life) -> dict[str, str]:
        environment = {**os.environ, "PYTHONPATH": python_path()}
        if life.point:
            wish = {"point": life.point, "hit": life.hit, "who": life.who}
            environment[DIE] = json.dumps(wish)
        return environment

    def _wait(self, life: Life, job: subprocess.Popen[bytes], log: Path) -> None:
        """Until the fault has come, or all is through without it."""
        deadline = time.monotonic() + LIFE_S_MAX
        hurt = False
        while time.monotonic() < deadline:
            if job.poll() is not None:
                self.done[f"{life.who} died at '{life.point}'" if life.point else life.kind] += 1
                return
            batches = log.read_bytes().count(b"batch ")
            if not hurt and life.kind != "none" and batches >= life.batches:
                hurt = True
                time.sleep(life.delay_s)
                self._hurt(life, job)
                if life.kind == "freeze":
                    return
            if self._is_through():
                if life.point:
                    self.done[f"{life.who} at '{life.point}', and went on"] += 1
                return
            time.sleep(TICK_S)
        raise AssertionError(f"not through after {LIFE_S_MAX} s:\n{tail(log)}")

    def _hurt(self, life: Life, job: subprocess.Popen[bytes]) -> None:
        if life.broker:
            self._broker.kill()
            self._broker.start()
            self.done["kill broker"] += 1
        pids = family(job.pid)
        workers = [each for each in pids if is_python_worker(each)]
        if life.kind == "worker" and workers:
            kill(random.Random(life.delay_s).choice(workers))
            self.done["kill worker"] += 1
        elif life.kind in ("driver", "all"):
            for pid in pids if life.kind == "all" else set(pids) - set(workers):
                kill(pid)

    def _thaw_and_end(self, pid: int) -> None:
        """A zombie goes on beside the job that has taken its place, for a moment."""
        if self._frozen and pid not in self._frozen:
            for each in self._frozen:
                kill(each, signal.SIGCONT)
            time.sleep(2.0)
            end([each for first in self._frozen for each in family(first)])
            self._frozen = []

    def _is_through(self) -> bool:
        shown = {str(each, "utf-8") for each in self._values()}
        return shown >= set(self.expected)

    def _values(self) -> list[bytes]:
        return [
            record.value or b""
            for partition in range(PARTITIONS)
            for record in committed(self._log(partition))
        ]

    def _log(self, partition: int) -> list[Batch]:
        return read_log(self._broker.bootstrap, "target", partition)

    def _wrong(self) -> list[str]:
        found = Counter(str(each, "utf-8") for each in self._values())
        wrong = [f"{each} is there {count} times" for each, count in found.items() if count > 1]
        wrong += [f"{each} is missing" for each in self.expected if each not in found]
        wrong += [f"{each} was never sent" for each in found.keys() - set(self.expected)]
        for partition in range(PARTITIONS):
            log = self._log(partition)
            wrong += [f"a transaction is open in {partition}" for _ in open_producers(log)]
            if not any(life.shuffled for life in self.plan):
                wrong += out_of_order(log)
        return wrong


def out_of_order(log: list[Batch]) -> list[str]:
    """Without a shuffle the records of a source partition keep their order."""
    last: dict[bytes, tuple[int, int]] = {}
    wrong = []
    for record in committed(log):
        life, _, number = str(record.value or b"", "utf-8").partition(":")
        place = (int(life), int(number))
        if place < last.get(record.key or b"", (-1, -1)):
            wrong.append(f"{record.value!r} comes after {last[record.key or b'']}")
        last[record.key or b""] = place
    return wrong


def read_log(servers: str, topic: str, partition: int) -> list[Batch]:
    """All batches of a partition, as they lie."""
    with ConnectionPool(servers) as lines:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (found,) = lines.call(asked, ApiKey.METADATA, MetadataResponse).topics
        line = lines.line(found.partitions[0].leader_id)
        batches: list[Batch] = []
        while True:
            position = batches[-1].last_offset + 1 if batches else 0
            wanted = FetchPartition(partition, fetch_offset=position, partition_max_bytes=1 << 22)
            topics = [FetchTopic(topic, topic_id=found.topic_id, partitions=[wanted])]
            request = FetchRequest(max_wait=0, min_bytes=0, session_epoch=-1, topics=topics)
            answer = line.call(request, ApiKey.FETCH, FetchResponse)
            part = answer.responses[0].partitions[0]
            assert part.error_code == 0, part.error_code
            more = list(batches_of(bytes(part.records or b"")))
            if not more:
                return batches
            batches += more


def end(pids: list[int], number: int = signal.SIGKILL) -> None:
    for pid in pids:
        kill(pid, number)


def python_path() -> str:
    """This process's, for Spark's Python workers as well: they import the points."""
    return os.pathsep.join(each for each in (str(HERE), *sys.path) if each)


def tail(log: Path, size: int = 5000) -> str:
    return log.read_bytes()[-size:].decode(errors="replace")


def summary(run: SparkRun) -> Mapping[str, int]:
    return {"records": len(run.expected), **run.done}
