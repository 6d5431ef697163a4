"""A source connector that is killed at moments which a seed has chosen, then the facts.

Its tasks count from 0 to n. Each life of the worker ends with a fault: a point of the sink's work,
a worker of Spark, the process of a task, the driver, all of them, or a freeze, after which the old
worker goes on beside the new one. At the end each number must be in the topic once, in order.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from compat_brokers import Broker, start_broker
from compat_confluent import make_topic
from delivery_log import Batch, committed, open_producers
from delivery_spark import BROKER_SETTINGS, end, read_log, tail
from delivery_spark_points import DIE, POINTS, WHO, family, is_python_worker, kill

HERE = Path(__file__).parent
JOB = HERE / "delivery_connect_job.py"
PLUGINS = HERE.parent / "spark" / "connect" / "run"
TOPIC = "target"
PARTITIONS = 2
TASKS = 2
NUMBERS = 400  # more with each life, for each task
PAUSE_MS = 10
LIFE_S_MAX = 300.0
LAST_LIVES_MAX = 3
TICK_S = 0.1
KINDS = ("point", "point", "worker", "host", "driver", "all")


@dataclass(frozen=True, slots=True)
class Life:
    """How a life ends: when the topic has `after` more records, and a moment later."""

    kind: str
    after: int = 0
    delay_s: float = 0.0
    point: str = ""
    who: str = ""
    hit: int = 1
    master: str = "local[2]"

    def __str__(self) -> str:
        what = f"{self.who} at '{self.point}' {self.hit}" if self.point else self.kind
        return f"{what} after {self.after} ({self.master})"


def lives(seed: int, count: int, *, zombies: bool = False) -> list[Life]:
    """What the seed alone decides."""
    chance = random.Random(f"connect {seed}")
    found = []
    for _ in range(count):
        kind = chance.choice((*KINDS, "freeze") if zombies else KINDS)
        master = chance.choice(["local[2]", "local[2,4]"])
        after, delay_s = chance.randrange(1, NUMBERS), chance.uniform(0, 0.3)
        if kind == "point":
            point, who = chance.choice(sorted(POINTS)), chance.choice(WHO)
            hit = chance.randrange(1, 4)
            found.append(Life(kind, after, delay_s, point, who, hit, master))
        else:
            found.append(Life(kind, after, delay_s, master=master))
    return found


@dataclass(slots=True)
class ConnectRun:
    seed: int
    plan: list[Life]
    directory: Path
    exactly_once: bool = True
    file: bool = False
    """The lines of a file that grows, by the connector in the box; else numbers out of nowhere."""
    say: Callable[[str], None] = print
    done: Counter[str] = field(default_factory=Counter)
    numbers: int = 0
    _broker: Broker = field(init=False)
    _frozen: list[int] = field(default_factory=list)

    def __call__(self) -> list[str]:
        """What is wrong with the topic, when all is over."""
        self.say(f"connect: OTTLA_SEED={self.seed}, {len(self.plan)} lives")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._broker = start_broker(self.directory / "broker", BROKER_SETTINGS)
        try:
            make_topic(self._broker.bootstrap, TOPIC, PARTITIONS)
            for number, life in enumerate(self.plan):
                self.say(f"  {life}")
                self._more()
                self._live(life, number)
            self._come_through()
            return self._wrong()
        finally:
            self._broker.kill()
            for number in range(len(self.plan) + LAST_LIVES_MAX):
                shutil.rmtree(self._places(number), ignore_errors=True)

    def _more(self) -> None:
        with (self.directory / "lines").open("a") as file:
            for number in range(self.numbers, self.numbers + NUMBERS):
                file.writelines(f"{task}:{number}\n" for task in range(TASKS))
        self.numbers += NUMBERS

    def _come_through(self) -> None:
        """The last life. Spark may fail to start on a busy machine: it is then started again."""
        for number in range(len(self.plan), len(self.plan) + LAST_LIVES_MAX):
            self._live(Life("none"), number)
            if self._is_through():
                return
        raise AssertionError(f"not through:\n{tail(self.directory / f'life-{number}.log')}")

    def _live(self, life: Life, number: int) -> None:
        with (self.directory / f"life-{number}.log").open("wb") as output:
            job = self._start(life, number, output)
            try:
                self._wait(life, job, number)
            finally:
                if life.kind == "freeze" and job.poll() is None:
                    self._frozen = [*family(job.pid), *self._hosts(number)]
                    end(self._frozen, signal.SIGSTOP)
                else:
                    end(family(job.pid))
                    job.wait()
                    self._thaw_and_end()

    def _start(self, life: Life, number: int, output: object) -> subprocess.Popen[bytes]:
        text = "org.apache.kafka.connect.storage.StringConverter"
        given = {
            "name": "numbers",
            "master": life.master,
            "config": self._config(),
            "worker": {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": "delivery",
                "exactly.once.source.support": "enabled" if self.exactly_once else "disabled",
                "offset.storage.partitions": "2",
                "key.converter": text,
                "value.converter": text,
                "plugin.path": str(PLUGINS),
            },
        }
        path = os.pathsep.join(each for each in (str(HERE), str(PLUGINS), *sys.path) if each)
        places = self._places(number)
        places.mkdir()
        environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(places)}
        if life.point:
            wish = {"point": life.point, "hit": life.hit, "who": life.who}
            environment[DIE] = json.dumps(wish)
        return subprocess.Popen(
            [sys.executable, str(JOB), json.dumps(given)],
            stdout=output,  # type: ignore[arg-type]
            stderr=output,  # type: ignore[arg-type]
            env=environment,
        )

    def _config(self) -> dict[str, str]:
        if self.file:
            lines = str(self.directory / "lines")
            return {"connector.class": "FileStreamSource", "topic": TOPIC, "file": lines}
        return {
            "connector.class": "connect_for_tests:Numbers",
            "tasks.max": str(TASKS),
            "topic": TOPIC,
            "numbers": str(self.numbers),
            "pause.ms": str(PAUSE_MS),
        }

    def _wait(self, life: Life, job: subprocess.Popen[bytes], number: int) -> None:
        """Until the fault has come, or all is through without it."""
        deadline = time.monotonic() + LIFE_S_MAX
        before, hurt = len(self._values()), False
        while time.monotonic() < deadline:
            if job.poll() is not None:
                self.done[f"{life.who} died at '{life.point}'" if life.point else life.kind] += 1
                return
            wanted = life.kind not in ("none", "point") and not hurt
            if wanted and len(self._values()) - before >= life.after:
                hurt = True
                time.sleep(life.delay_s)
                self._hurt(life, job, number)
                if life.kind == "freeze":
                    return
            if self._is_through():
                return
            time.sleep(TICK_S)
        raise AssertionError(f"not through:\n{tail(self.directory / f'life-{number}.log')}")

    def _hurt(self, life: Life, job: subprocess.Popen[bytes], number: int) -> None:
        pids = family(job.pid)
        workers = [each for each in pids if is_python_worker(each)]
        chance = random.Random(life.delay_s)
        self.done[life.kind] += 1
        if life.kind == "worker" and workers:
            kill(chance.choice(workers))
        elif life.kind == "host" and self._hosts(number):
            kill(chance.choice(self._hosts(number)))
        elif life.kind in ("driver", "all"):
            for pid in pids if life.kind == "all" else set(pids) - set(workers):
                kill(pid)

    def _hosts(self, number: int) -> list[int]:
        """The processes of the tasks: they are nobody's children."""
        files = self._places(number).glob("ottla-connect-*/*.pid")
        return [int(each.read_text()) for each in files]

    def _places(self, number: int) -> Path:
        """Short: the path of a socket may have 107 characters."""
        return Path(tempfile.gettempdir()) / f"oc-{os.getpid()}-{number}"

    def _thaw_and_end(self) -> None:
        """A zombie goes on beside the worker that has taken its place, for a moment."""
        if self._frozen:
            end(self._frozen, signal.SIGCONT)
            time.sleep(2.0)
            end([each for first in self._frozen for each in family(first)])
            self._frozen = []

    def _is_through(self) -> bool:
        return len(set(self._values())) >= TASKS * self.numbers

    def _values(self) -> list[str]:
        return [
            (record.value or b"").decode()
            for partition in range(PARTITIONS)
            for record in committed(self._log(partition))
        ]

    def _log(self, partition: int) -> list[Batch]:
        return read_log(self._broker.bootstrap, TOPIC, partition)

    def _wrong(self) -> list[str]:
        found = Counter(self._values())
        expected = [f"{task}:{each}" for task in range(TASKS) for each in range(self.numbers)]
        wrong = [f"{each} is there {count} times" for each, count in found.items() if count > 1]
        wrong += [f"{each} is missing" for each in expected if each not in found]
        wrong += [f"{each} was never sent" for each in found.keys() - set(expected)]
        for task in range(TASKS):
            numbers = [int(v.split(":")[1]) for v in self._values() if v.startswith(f"{task}:")]
            if numbers != sorted(numbers) and not self.file:  # its lines have no keys
                wrong.append(f"the numbers of task {task} are not in order")
        for partition in range(PARTITIONS):
            log = self._log(partition)
            wrong += [f"a transaction is open in {partition}" for _ in open_producers(log)]
        return wrong


def summary(run: ConnectRun) -> Mapping[str, int]:
    return {"records": TASKS * run.numbers, **run.done}
