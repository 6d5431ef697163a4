"""A connector that is killed at moments chosen by a seed, then the evaluation.

Each life of the worker ends with a fault: a death at a point of the sink's work, or of a Spark
worker, a task's process, the driver, all of them, or the broker, or a freeze, after which the old
worker continues beside the new one. The input grows meanwhile (delivery_connect_subjects.py), so
that a fault hits a busy connector.
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
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any

from compat_brokers import Broker, start_broker
from compat_confluent import make_topic
from delivery_connect_subjects import SUBJECTS, TOPIC, Subject
from delivery_places import LOCAL, SURROUNDINGS, Place, place_in
from delivery_spark import BROKER_SETTINGS, EndedByItself, end, restarted_if_too_slow, tail
from delivery_spark_points import DIE, POINTS, WHO, family, is_python_worker, kill

HERE = Path(__file__).parent
JOB = HERE / "delivery_connect_job.py"
PLUGINS = HERE.parent / "connect" / "run"
NAME = "subject"
AFTER_MAX = 300
FIRST = 100  # records at the start of a life; the others follow when it has begun to work
IN_A_LIFE = 5000  # the most in a life; its fault usually comes sooner
PAUSE_S_MAX = 0.06
LIFE_S_MAX = 900.0  # a hang, and not a busy machine
LAST_LIVES_MAX = 3
TICK_S = 0.1
ZOMBIE_S = 4.0
KINDS = ("worker", "host", "driver", "all", "broker")


@dataclass(frozen=True, slots=True)
class WorkerLife:
    """How a life ends: a moment after `after` more records have arrived."""

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


def lives(seed: int, count: int, *, sink: bool = False, zombies: bool = False) -> list[WorkerLife]:
    """The plan, which depends only on the seed. Sink connectors never pass the sink's points."""
    chance = random.Random(f"connect {seed}")
    kinds = (*KINDS, *(() if sink else ("point", "point", "point")))
    found = []
    for _ in range(count):
        kind = chance.choice((*kinds, "freeze") if zombies else kinds)
        master = chance.choice(["local[2]", "local[2,4]"])
        after, delay_s = chance.randrange(1, AFTER_MAX), chance.uniform(0, 0.3)
        if kind == "point":
            point, who = chance.choice(sorted(POINTS)), chance.choice(WHO)
            hit = chance.randrange(1, 4)
            found.append(WorkerLife(kind, after, delay_s, point, who, hit, master))
        else:
            found.append(WorkerLife(kind, after, delay_s, master=master))
    return found


def connector_of(seed: int) -> str:
    return list(SUBJECTS)[seed % len(SUBJECTS)]


@dataclass(slots=True)
class ConnectRun:
    seed: int
    plan: list[WorkerLife]
    directory: Path
    connector: str = "numbers"
    """Of SUBJECTS."""
    say: Callable[[str], None] = print
    job: Path = JOB
    host_names: str = "connect-"
    """What the names of the tasks' processes begin with."""
    done: Counter[str] = field(default_factory=Counter)
    count: int = 0
    _broker: Broker = field(init=False)
    _subject: Subject = field(init=False)
    _limit: int = 0
    _frozen: list[int] = field(default_factory=list)
    _zombie: subprocess.Popen[bytes] | None = None
    place: str = LOCAL
    """Where Spark runs: one of PLACES."""
    _place: Place = field(init=False)

    def __call__(self) -> list[str]:
        """The violations at the end."""
        with place_in(self.directory / "place", self.place) as self._place:
            return self._run()

    def _run(self) -> list[str]:
        self.say(f"{self.connector}: OTTLA_SEED={self.seed}, {len(self.plan)} lives")
        self._broker = start_broker(self.directory / "broker", BROKER_SETTINGS)
        try:
            self._subject = self._made_subject()
            with self._growing():
                for number, life in enumerate(self.plan):
                    self.say(f"  {life}")
                    restarted_if_too_slow(partial(self._live, life, number), self.done)
                self._come_through()
            self.count = self._subject.count
            return self._subject.wrong()
        finally:
            if self._broker.alive():
                self._broker.kill()
            for number in range(len(self.plan) + LAST_LIVES_MAX):
                shutil.rmtree(self._temporary(number), ignore_errors=True)

    def _made_subject(self) -> Subject:
        """The subject, with its topics."""
        made: Subject = SUBJECTS[self.connector](self._broker.bootstrap, self.directory)
        make_topic(self._broker.bootstrap, TOPIC, made.partitions)
        return made

    @contextmanager
    def _growing(self) -> Iterator[None]:
        """A thread that adds input up to the limit, whatever happens to the connector."""
        over = threading.Event()
        chance = random.Random(f"grow {self.seed}")

        def grow() -> None:
            while not over.wait(chance.uniform(0, PAUSE_S_MAX)):
                if self._is_growing():
                    self._subject.grow(chance)

        thread = threading.Thread(target=grow, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _come_through(self) -> None:
        """The last life. If Spark fails to start on a busy machine, it is started again."""
        for number in range(len(self.plan), len(self.plan) + LAST_LIVES_MAX):
            self._live(WorkerLife("none"), number)
            if self._is_through():
                return
        raise AssertionError(f"not through:\n{tail(self._log(number))}")

    def _live(self, life: WorkerLife, number: int) -> None:
        with self._log(number).open("wb") as output:
            job = self._start(life, number, output)
            try:
                self._wait(life, job, number)
            finally:
                if life.kind == "freeze" and job.poll() is None:
                    self._zombie = job
                    self._frozen = [*family(job.pid), *self._hosts(number), *self._far()]
                    end(self._frozen, signal.SIGSTOP)
                else:
                    self._thaw_and_end()
                    end(family(job.pid))
                    job.wait()

    def _start(self, life: WorkerLife, number: int, output: IO[bytes]) -> subprocess.Popen[bytes]:
        environment = self._environment(life, number)
        given = {**self._arguments(), **self._place.given(life.master, environment)}
        return subprocess.Popen(
            [sys.executable, str(self.job), json.dumps(given)],
            stdout=output,
            stderr=output,
            env=environment,
        )

    def _arguments(self) -> dict[str, Any]:
        text = "org.apache.kafka.connect.storage.StringConverter"
        return {
            "name": NAME,
            "config": self._subject.config(),
            "worker": {
                "bootstrap.servers": self._broker.bootstrap,
                "group.id": "delivery",
                "exactly.once.source.support": "enabled",
                "offset.storage.partitions": "2",
                "key.converter": text,
                "value.converter": text,
                "plugin.path": str(PLUGINS),
            },
        }

    def _environment(self, life: WorkerLife, number: int) -> dict[str, str]:
        path = os.pathsep.join(path for path in (str(HERE), str(PLUGINS), *sys.path) if path)
        temporary = self._temporary(number)
        temporary.mkdir(exist_ok=True)
        environment = {**os.environ, **SURROUNDINGS, "PYTHONPATH": path, "TMPDIR": str(temporary)}
        if life.point:
            crash = {"point": life.point, "hit": life.hit, "who": life.who}
            # Only one process: its successors must make progress.
            crash |= {"mark": str(self._died(number)), "once": True}
            environment[DIE] = json.dumps(crash)
        return environment

    def _wait(self, life: WorkerLife, job: subprocess.Popen[bytes], number: int) -> None:
        """Wait until the fault has happened, or everything is processed without it."""
        deadline = time.monotonic() + LIFE_S_MAX
        before, fed, hurt = self._subject.arrived(), life.kind == "none", False
        self._limit = self._subject.count + FIRST
        while time.monotonic() < deadline:
            self._subject.watch()
            ended = job.poll() is not None  # before it is asked why
            if not hurt and self._died(number).exists():
                hurt = True
                self._note(f"{life.who} died at '{life.point}'")
            if ended:
                if life.kind != "none" and not hurt:
                    raise EndedByItself(life, self._log(number))
                return
            arrived = self._subject.arrived() - before
            if arrived and not fed and not hurt:
                fed, self._limit = True, self._subject.count + IN_A_LIFE
            if life.kind not in ("none", "point") and not hurt and arrived >= life.after:
                time.sleep(life.delay_s)
                hurt = self._hurt(life, job, number)
                if life.kind == "freeze":
                    return
            if self._is_through():
                return
            time.sleep(TICK_S)
        raise AssertionError(f"not through:\n{tail(self._log(number))}")

    def _note(self, what: str) -> None:
        """After a fault, only a little more input is needed."""
        self.done[what] += 1
        if self._subject.found() < self._subject.count or self._is_growing():
            self.done["while there was work"] += 1
        self._limit = min(self._limit, self._subject.count + FIRST)

    def _hurt(self, life: WorkerLife, job: subprocess.Popen[bytes], number: int) -> bool:
        """False if what is to be killed does not run at this moment: it is tried again."""
        hosts = self._hosts(number)
        pids = [pid for pid in family(job.pid) if pid not in hosts]
        workers = [pid for pid in pids if is_python_worker(pid)] or self._far()
        chance = random.Random(life.delay_s)
        one_of = {"worker": workers, "host": hosts}.get(life.kind)
        if one_of == []:
            return False
        self._note(life.kind)
        if one_of:
            kill(chance.choice(one_of))
        elif life.kind == "broker":
            self._broker.kill()
            self._broker.start()
        elif life.kind in ("driver", "all"):
            every = {*pids, *workers}
            for pid in every if life.kind == "all" else every - set(workers):
                kill(pid)
        return True

    def _hosts(self, number: int) -> list[int]:
        """The processes of the tasks, which are not children of the worker."""
        mark = f"TMPDIR={self._temporary(number)}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                is_host = (entry / "comm").read_text().startswith(self.host_names)
                if is_host and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found

    def _far(self) -> list[int]:
        """The processes of a cluster, without those of a zombie."""
        return [pid for pid in self._place.executors() if pid not in self._frozen]

    def _log(self, number: int) -> Path:
        return self.directory / f"life-{number}.log"

    def _died(self, number: int) -> Path:
        """A file that exists once a process of this life has died at its point."""
        return self.directory / f"died-{number}"

    def _temporary(self, number: int) -> Path:
        """A directory for the processes of one life only, which identifies them."""
        return Path(tempfile.gettempdir()) / f"oc-{os.getpid()}-{number}"

    def _thaw_and_end(self) -> None:
        """Let a zombie run for a moment beside the worker that has replaced it."""
        if self._frozen:
            end(self._frozen, signal.SIGCONT)
            deadline = time.monotonic() + ZOMBIE_S
            while time.monotonic() < deadline:
                self._subject.watch()
                time.sleep(TICK_S)
            end([pid for first in self._frozen for pid in family(first)])
            assert self._zombie is not None
            self._zombie.wait()
            self._frozen = []

    def _is_growing(self) -> bool:
        return self._subject.grows and self._subject.count < self._limit

    def _is_through(self) -> bool:
        """True if the input is complete and has arrived."""
        if self._is_growing():
            return False
        self._subject.close()
        return self._subject.found() >= self._subject.count


def summary(run: ConnectRun) -> Mapping[str, int]:
    return {"records": run.count, **run.done}
