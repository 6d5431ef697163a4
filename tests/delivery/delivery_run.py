"""One run: a broker, workers, faults by a seed, calm until all is processed, the evaluation."""

from __future__ import annotations

import heapq
import itertools
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from compat_brokers import Broker, start_broker
from compat_confluent import make_topic
from delivery_clients import AIOKAFKA, JAVA, LIBRDKAFKA, command
from delivery_faults import BROKER, Fault, schedule
from delivery_history import GivenUp, History
from delivery_journal import is_ready, read_journal
from delivery_watch import Watch, wait_until

PARTITIONS = 3
TICK_S = 0.02
REST_S = 0.3
STARTS_MAX = 100
WORKER_START_S = 30.0
WORKER_STOP_S = 60.0
CALM_S = 90.0
TRANSACTION_TIMEOUT_MS = 8000

# Short timeouts, so that sessions and transactions time out during a run.
BROKER_SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "500",
}


@dataclass(slots=True)
class Case:
    """A mode, and the group protocol (and assignor) of the transforming workers."""

    mode: str
    group_protocol: str = "classic"
    assignor: str = "range"

    def __str__(self) -> str:
        how = self.assignor if self.group_protocol == "classic" else "KIP-848"
        return f"{self.mode}, {how}"


@dataclass(slots=True)
class Slot:
    """A place for one worker at a time; when it dies, the next worker of its name takes it."""

    name: str
    role: str
    program: Path = LIBRDKAFKA
    incarnation: int = 0
    process: subprocess.Popen[bytes] | None = None
    awaited: bool = False
    """The worker is gone, and the start of the next one is scheduled."""
    retired: bool = False


@dataclass(slots=True)
class Run:
    case: Case
    seed: int
    seconds: float
    directory: Path
    launch: Callable[[Path, dict[str, str]], Broker] = start_broker
    say: Callable[[str], None] = print
    calm_s: float = CALM_S
    """How long the calm after the faults may take until all is processed."""
    records_min: int = 0
    """How many records must come out before the sources stop, however long that takes."""
    history: History = field(init=False)
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        name = f"{self.case.mode.replace('_', '-')}-{self.seed}"
        self.history = History(self.case.mode, f"{name}-in", f"{name}-out", f"{name}-group")
        self._slots = {slot.name: slot for slot in self._workers()}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._zombies: list[subprocess.Popen[bytes]] = []
        self._broker_away = False

    # dataclass(slots=True) wants to know what __post_init__ makes
    _slots: dict[str, Slot] = field(init=False)
    _due: list[tuple[float, int, Callable[[], None]]] = field(init=False)
    _numbers: itertools.count[int] = field(init=False)
    _zombies: list[subprocess.Popen[bytes]] = field(init=False)
    _broker_away: bool = field(init=False)
    _broker: Broker = field(init=False)

    def __call__(self) -> History:
        self.say(f"{self.case}: OTTLA_SEED={self.seed}, {self.seconds:.0f} s of faults")
        self._broker = self.launch(self.directory / "broker", BROKER_SETTINGS)
        try:
            for topic in (self.history.input, self.history.output):
                make_topic(self._broker.bootstrap, topic, PARTITIONS)
            watch = Watch(self.history, self._broker.bootstrap, PARTITIONS, self.seed)
            watch.start()
            try:
                for slot in self._slots.values():
                    self._start_worker(slot)
                self._suffer()
                self._calm_down(watch)
            finally:
                watch.stop()
                self._kill_all()
        finally:
            if self._broker.alive():
                self._broker.kill()
            self._collect()
        return self.history

    def _workers(self) -> list[Slot]:
        at_most_once = self.case.mode == "at_most_once"  # aiokafka retries by itself
        workers = [
            Slot("source0", "source"),
            Slot("source1", "source", LIBRDKAFKA if at_most_once else AIOKAFKA),
            *(Slot(f"transform{number}", "transform") for number in range(3)),
            Slot("observer0", "observer"),
        ]
        if self.case.mode == "exactly_once":
            workers.append(Slot("source2", "source", JAVA))
            workers.append(Slot("observer1", "observer", AIOKAFKA))
        return workers

    # Faults

    def _suffer(self) -> None:
        victims = [slot.name for slot in self._slots.values() if slot.role != "observer"]
        wait_until(lambda: all(map(self._is_ready, self._slots.values())), WORKER_START_S)
        start = time.monotonic()
        for fault in schedule(self.seed, victims, self.seconds):
            self._at(start + fault.at_s, lambda fault=fault: self._inflict(fault))
        while self._due:
            self._supervise()
            time.sleep(TICK_S)

    def _at(self, when: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (when, next(self._numbers), action))

    def _inflict(self, fault: Fault) -> None:
        """Execute the plan; a fault whose target is down waits."""
        if fault.target == BROKER:
            if self._broker_away:
                self._at(time.monotonic() + TICK_S, lambda: self._inflict(fault))
            else:
                self._hurt_broker(fault)
            return
        slot = self._slots[fault.target]
        if slot.awaited or slot.process is None or slot.process.poll() is not None:
            self._at(time.monotonic() + TICK_S, lambda: self._inflict(fault))
            return
        self.done[f"{fault.kind} {slot.role}"] += 1
        later = time.monotonic() + fault.for_s
        if fault.kind in ("kill", "terminate"):
            slot.process.send_signal(signal.SIGKILL if fault.kind == "kill" else signal.SIGTERM)
            slot.awaited = True
            self._at(later, lambda: self._start_worker(slot))
            return
        process = slot.process
        process.send_signal(signal.SIGSTOP)
        self._at(later, lambda: process.send_signal(signal.SIGCONT))
        if fault.kind == "replace":
            self._start_worker(slot)

    def _hurt_broker(self, fault: Fault) -> None:
        assert self._broker.process is not None
        self.done[f"{fault.kind} broker"] += 1
        self._broker_away = True
        later = time.monotonic() + fault.for_s
        if fault.kind == "pause":
            self._broker.process.send_signal(signal.SIGSTOP)
            self._at(later, self._resume_broker)
            return
        if fault.kind == "kill":
            self._broker.kill()
        elif (exit_code := self._broker.stop()) not in (0, 143):  # a JVM says 128 + 15
            log = self._broker.log_tail()
            self.history.accidents.append(f"told to stop, the broker left with {exit_code}:\n{log}")
        self._at(later, self._restart_broker)

    def _resume_broker(self) -> None:
        assert self._broker.process is not None
        self._broker.process.send_signal(signal.SIGCONT)
        self._broker_away = False

    def _restart_broker(self) -> None:
        self._broker.start()
        self._broker_away = False

    # Workers

    def _start_worker(self, slot: Slot) -> None:
        if slot.retired:
            return
        if slot.process is not None and slot.process.poll() is None:
            self._zombies.append(slot.process)
            self.history.zombies[slot.name] += 1
        slot.incarnation += 1
        slot.awaited = False
        given = {
            "role": slot.role, "mode": self.case.mode, "slot": slot.name, "seed": self.seed,
            "incarnation": slot.incarnation, "journal": str(self._journal(slot)),
            "bootstrap": self._broker.bootstrap, "partitions": PARTITIONS,
            "input": self.history.input, "output": self.history.output,
            "group": self.history.group, "group_protocol": self.case.group_protocol,
            "assignor": self.case.assignor, "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
            **self._credentials(slot),
        }  # fmt: skip
        with (self.directory / "workers.log").open("ab") as log:
            slot.process = subprocess.Popen(
                command(slot.program, given, self.directory), stdout=log, stderr=log
            )

    def _credentials(self, slot: Slot) -> dict[str, str]:
        """For a secured cluster: user, password, and the file of trusted authorities."""
        return {}

    def _journal(self, slot: Slot) -> Path:
        return self.directory / f"{slot.name}.{slot.incarnation}.journal"

    def _is_ready(self, slot: Slot) -> bool:
        return is_ready(self._journal(slot))

    def _supervise(self) -> None:
        """Do what is due. A worker that gave up is replaced, and its reason is checked later; a
        broker that died unexpectedly is a finding."""
        while self._due and self._due[0][0] <= time.monotonic():
            heapq.heappop(self._due)[2]()
        if not self._broker_away and not self._broker.alive():
            self.history.accidents.append(f"the broker died:\n{self._broker.log_tail()}")
            self._broker.process = None
            self._broker.start()
        for slot in self._slots.values():
            if slot.process is None or slot.process.poll() is None or slot.awaited:
                continue
            exit_code = slot.process.returncode
            self.done[f"{slot.role} gave up ({exit_code})"] += 1
            self.history.given_up.append(GivenUp(slot.name, slot.incarnation, exit_code))
            assert slot.incarnation < STARTS_MAX, f"{slot.name} dies all the time"
            if slot.role == "observer":
                self.history.accidents.append(f"{slot.name} ended: {self._tail()}")
                slot.process = None
            else:
                slot.awaited = True
                self._at(time.monotonic() + REST_S, lambda slot=slot: self._start_worker(slot))

    def _calm_down(self, watch: Watch) -> None:
        """After the faults: sources stop, all input is processed, observers reach the end."""
        of_role: dict[str, list[Slot]] = {}
        for slot in self._slots.values():
            of_role.setdefault(slot.role, []).append(slot)
        self._wait_supervised(lambda: all(map(self._is_ready, self._slots.values())), "all start")
        self._wait_supervised(lambda: self._through() >= self.records_min, "enough comes out")
        # A zombie may still own a partition, so it ends first; so may a worker that it fenced.
        for process in self._zombies:
            end(process)
        self._stop_workers(of_role["source"])
        self._wait_supervised(
            lambda: watch.caught_up() and self._all_transformed(), "the group reads to the end"
        )
        self._stop_workers(of_role["transform"])
        self._wait_supervised(watch.caught_up, "every transaction ends")
        seen = self.history.visible(self.history.input), self.history.visible(self.history.output)
        total = sum(map(len, seen))
        wait_until(
            lambda: all(self._seen(s) >= total for s in of_role["observer"]), self.calm_s / 3
        )
        self._stop_workers(of_role["observer"])

    def _wait_supervised(self, condition: Callable[[], bool], what: str) -> None:
        def look() -> bool:
            self._supervise()
            return condition()

        if not wait_until(look, self.calm_s):
            series = {str(key): values[-1] for key, values in self.history.series.items()}
            places = {str(key): values[-1] for key, values in self.history.group_offsets.items()}
            self.history.accidents.append(
                f"not in {self.calm_s:.0f} s of calm: {what}; {series}; committed {places}"
            )

    def _all_transformed(self) -> bool:
        """True if the group has committed the end of what read_committed returns."""
        for place in self.history.places(self.history.input):
            offsets = self.history.group_offsets.get(place, [-1])
            shown = [r.offset for r in self.history.visible_at(place)]
            if shown and offsets[-1] <= shown[-1]:
                return False
        return True

    def _through(self) -> int:
        """Count of records that transforms have written: at least one per transaction."""
        what = b'["committed"' if self.case.mode == "exactly_once" else b'["acked"'
        journals = self.directory.glob("transform*.journal")
        return sum(path.read_bytes().count(what) for path in journals)

    def _seen(self, slot: Slot) -> int:
        path = self._journal(slot)
        return path.read_bytes().count(b'["read"') if path.exists() else 0

    def _stop_workers(self, slots: list[Slot]) -> None:
        """Stop the workers cleanly. Slots stay empty from here on."""
        processes = [slot.process for slot in slots if slot.process is not None]
        for slot in slots:
            slot.process, slot.retired = None, True
        for process in processes:
            process.send_signal(signal.SIGTERM)
        for process in processes:
            end(process)

    def _kill_all(self) -> None:
        workers = [slot.process for slot in self._slots.values() if slot.process is not None]
        for process in [*workers, *self._zombies]:
            if process.poll() is None:
                process.kill()
                process.wait()

    # Evaluation

    def _collect(self) -> None:
        for path in sorted(self.directory.glob("*.journal")):
            self.history.journals[path.stem] = read_journal(path)
        observers = [slot for slot in self._slots.values() if slot.role == "observer"]
        self.history.observers = [f"{slot.name}.{slot.incarnation}" for slot in observers]
        if self._broker.name == "ottla" and "Traceback" in (log := self._broker.log_tail(1 << 22)):
            at = log.index("Traceback")
            self.history.accidents.append(f"the broker's log has\n{log[at - 500 : at + 2500]}")
        if tail := self._tail():
            self.history.accidents.append(f"a worker failed in a way of its own:\n{tail}")

    def _tail(self) -> str:
        """Output of workers, without librdkafka's errors about a broker that is down."""
        path = self.directory / "workers.log"
        if not path.exists():
            return ""
        lines = path.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if line and not line.startswith("%")][-30:])


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, a timeout, SIGKILL."""
    if process.poll() is None:
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
    try:
        process.wait(WORKER_STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def seed_of_this_run() -> int:
    """OTTLA_SEED, or a new one."""
    given = os.environ.get("OTTLA_SEED")
    return int(given) if given else int.from_bytes(os.urandom(4), "big")
