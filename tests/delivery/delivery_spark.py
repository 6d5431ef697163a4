"""One run: a broker, a Spark job that is killed at moments chosen by a seed, the evaluation.

A run is a list of lives of the job. Each ends with a fault: the job dies at a point of the sink's
work, or is killed, or is stopped and continues as a zombie beside the next. The last life has none;
when all records are processed, the target topic is read.
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from compat_brokers import Broker, start_broker
from compat_confluent import make_topic
from delivery_log import Batch, batches_of, committed, open_producers
from delivery_places import LOCAL, SURROUNDINGS, Place, place_in
from delivery_spark_points import DIE, POINTS, WHO, family, is_python_worker, kill

from ottla.client import Producer
from ottla.client.protocol.connection_pool import ConnectionPool
from ottla.wire.apis import ApiKey
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

HERE = Path(__file__).parent
JOB = HERE / "delivery_spark_job.py"
PARTITIONS = 3
RECORDS = 150  # per life: at least five batches
AT_ONCE = 30
LIFE_S_MAX = 900.0  # a hang, and not a busy machine
LAST_LIVES_MAX = 3
STARTS_MAX = 3
# Spark gives its Python processes ten seconds to start, which a busy machine may not have.
TOO_SLOW = "Python worker failed to connect back"
TICK_S = 0.1
BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


@dataclass(frozen=True, slots=True)
class JobLife:
    """How a life of the job ends, and its settings."""

    kind: str
    """point, worker, driver, all, freeze; with `broker` the broker is killed as well."""
    point: str = ""
    who: str = ""
    hit: int = 1
    batches: int = 1
    """The count of batches before it is killed or frozen."""
    delay_s: float = 0.0
    master: str = "local[2]"
    shuffled: int = 0
    """The count of tasks, which differs in the next life."""
    broker: bool = False
    home: int = 0
    """Streams: a task host dies after so many records."""
    lost: bool = False
    """Streams: it starts without the state directory, as on another machine."""

    def __str__(self) -> str:
        what = f"{self.who} at '{self.point}' {self.hit}" if self.point else self.kind
        began = "without its state, " if self.lost else ""
        return f"{began}{what}{' and the broker' if self.broker else ''} ({self.master})"


def lives(seed: int, count: int, *, brokers: bool = False, zombies: bool = False) -> list[JobLife]:
    """The plan, which depends only on the seed."""
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
                JobLife(kind, points[number % len(points)], who, chance.randrange(1, 4), **shape)  # type: ignore[arg-type]
            )
        else:
            found.append(JobLife(kind, **shape))  # type: ignore[arg-type]
    return found


class EndedByItself(AssertionError):
    """A job has ended before its fault."""

    def __init__(self, life: object, log: Path) -> None:
        super().__init__(f"{life}: it ended by itself:\n{tail(log)}")
        self.too_slow = TOO_SLOW in log.read_text(errors="replace")


def restarted_if_too_slow(life: Callable[[], None], done: Counter[str]) -> None:
    for _ in range(STARTS_MAX - 1):
        try:
            return life()
        except EndedByItself as error:
            if not error.too_slow:
                raise
            done["started again"] += 1
    life()


@dataclass(slots=True)
class SparkRun:
    seed: int
    plan: list[JobLife]
    directory: Path
    delivery: str = "exactly_once"
    job: Path = JOB
    say: Callable[[str], None] = print
    done: Counter[str] = field(default_factory=Counter)
    expected: list[str] = field(default_factory=list)
    found: list[Batch] = field(default_factory=list)
    _broker: Broker = field(init=False)
    _frozen: list[int] = field(default_factory=list)
    place: str = LOCAL
    """Where Spark runs: one of PLACES."""
    _place: Place = field(init=False)

    def __call__(self) -> list[str]:
        """The violations in the target topic at the end."""
        with place_in(self.directory / "place", self.place) as self._place:
            return self._run()

    def _run(self) -> list[str]:
        self.say(f"spark, {self.delivery}: OTTLA_SEED={self.seed}, {len(self.plan)} lives")
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
        """The last life. If Spark fails to start on a busy machine, it is started again."""
        for number in range(len(self.plan), len(self.plan) + LAST_LIVES_MAX):
            self._live(JobLife("none"), number)
            if self._is_through():
                return
        last = self.directory / f"life-{number}.log"
        raise AssertionError(f"the job fails by itself:\n{tail(last)}")

    def _live(self, life: JobLife, number: int) -> None:
        if number <= len(self.plan):
            self._fill(number)
        restarted_if_too_slow(lambda: self._try(life, number), self.done)

    def _try(self, life: JobLife, number: int) -> None:
        log = self.directory / f"life-{number}.log"
        with log.open("wb") as output:
            job = self._start(life, number, output)
            try:
                self._wait(life, job, log, self._died(number))
                if life.kind == "freeze" and job.poll() is None:
                    self._frozen = [*family(job.pid), *self._far()]
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

    def _start(self, life: JobLife, number: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = self._environment(life, number)
        given = {
            "servers": self._broker.bootstrap,
            "source": "source",
            "target": "target",
            **self._place.given(life.master, environment),
            "shuffled": life.shuffled,
            "at_once": AT_ONCE,
            "delivery": self.delivery,
            "checkpoint": str(self._checkpoint(life)),
        }
        return subprocess.Popen(
            [sys.executable, str(self.job), json.dumps(given)],
            stdout=output,
            stderr=output,
            env=environment,
        )

    def _checkpoint(self, life: JobLife) -> Path:
        return self.directory / "checkpoint"

    def _died(self, number: int) -> Path:
        """A file that exists once a process of this life has died at its point."""
        return self.directory / f"died-{number}"

    def _environment(self, life: JobLife, number: int) -> dict[str, str]:
        environment = {**os.environ, **SURROUNDINGS, "PYTHONPATH": python_path()}
        if life.point:
            crash = {"point": life.point, "hit": life.hit, "who": life.who}
            crash |= {"mark": str(self._died(number)), "once": False}
            environment[DIE] = json.dumps(crash)
        return environment

    def _wait(self, life: JobLife, job: subprocess.Popen[bytes], log: Path, died: Path) -> None:
        """Wait until the fault has happened, or everything is processed without it."""
        deadline = time.monotonic() + LIFE_S_MAX
        hurt = False
        while time.monotonic() < deadline:
            if job.poll() is not None:
                at_point, wounded = died.exists(), hurt and (life.broker or not life.point)
                if not (at_point or wounded or life.kind == "none"):
                    raise EndedByItself(life, log)
                self.done[f"{life.who} died at '{life.point}'" if at_point else life.kind] += 1
                return
            batches = log.read_bytes().count(b"batch ")
            if not hurt and life.kind != "none" and batches >= life.batches:
                time.sleep(life.delay_s)
                hurt = self._hurt(life, job)
                if life.kind == "freeze":
                    return
            if self._is_through():
                if life.point:
                    went_on = f"{life.who} died at '{life.point}', and the job went on"
                    self.done[went_on if died.exists() else "no fault"] += 1
                return
            time.sleep(TICK_S)
        raise AssertionError(f"not through after {LIFE_S_MAX} s:\n{tail(log)}")

    def _hurt(self, life: JobLife, job: subprocess.Popen[bytes]) -> bool:
        """False if what is to be killed does not run at this moment: it is tried again."""
        pids = family(job.pid)
        workers = [pid for pid in pids if is_python_worker(pid)] or self._far()
        if life.kind == "worker" and not workers:
            return False
        if life.broker:
            self._broker.kill()
            self._broker.start()
            self.done["kill broker"] += 1
        if life.kind == "worker":
            kill(random.Random(life.delay_s).choice(workers))
            self.done["kill worker"] += 1
        elif life.kind in ("driver", "all"):
            every = {*pids, *workers}
            for pid in every if life.kind == "all" else every - set(workers):
                kill(pid)
        return True

    def _far(self) -> list[int]:
        """The processes of a cluster, without those of a zombie."""
        return [pid for pid in self._place.executors() if pid not in self._frozen]

    def _thaw_and_end(self, pid: int) -> None:
        """Let a zombie run for a moment beside the job that has replaced it."""
        if self._frozen and pid not in self._frozen:
            for pid in self._frozen:
                kill(pid, signal.SIGCONT)
            time.sleep(2.0)
            end([pid for first in self._frozen for pid in family(first)])
            self._frozen = []

    def _is_through(self) -> bool:
        shown = {str(value, "utf-8") for value in self._values()}
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
        found = Counter(str(value, "utf-8") for value in self._values())
        wrong = [f"{record} is there {count} times" for record, count in found.items() if count > 1]
        wrong += [f"{record} is missing" for record in self.expected if record not in found]
        wrong += [f"{record} was never sent" for record in found.keys() - set(self.expected)]
        for partition in range(PARTITIONS):
            log = self._log(partition)
            wrong += [f"a transaction is open in {partition}" for _ in open_producers(log)]
            if not any(life.shuffled for life in self.plan):
                wrong += out_of_order(log)
        return wrong


def out_of_order(log: list[Batch]) -> list[str]:
    """Violations of the order that the records of a source partition keep without a shuffle."""
    last: dict[bytes, tuple[int, int]] = {}
    wrong = []
    for record in committed(log):
        life, _, number = str(record.value or b"", "utf-8").partition(":")
        place = (int(life), int(number))
        if place < last.get(record.key or b"", (-1, -1)):
            wrong.append(f"{record.value!r} comes after {last[record.key or b'']}")
        last[record.key or b""] = place
    return wrong


def read_log(servers: str, topic: str, partition: int, known: Sequence[Batch] = ()) -> list[Batch]:
    """All batches of a partition; those that are known are not read again."""
    with ConnectionPool(servers) as lines:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        (found,) = lines.call(asked, ApiKey.METADATA, MetadataResponse).topics
        line = lines.connection(found.partitions[0].leader_id)
        batches = list(known)
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
    """This process's path, also for Spark's Python workers, which import the points."""
    return os.pathsep.join(path for path in (str(HERE), *sys.path) if path)


def tail(log: Path, size: int = 5000) -> str:
    return log.read_bytes()[-size:].decode(errors="replace")


def summary(run: SparkRun) -> Mapping[str, int]:
    return {"records": len(run.expected), **run.done}
